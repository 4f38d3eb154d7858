// CRC32C (Castagnoli, RFC 3720 appendix B.4) with the processor's instructions where it has them, chosen at run time,
// and tables elsewhere; and the 64-bit checksum of weights built from the same instruction.
#pragma once
#include <cstddef>
#include <cstdint>

namespace agentrl::shm {

uint32_t Crc32c(const void* data, size_t bytes);
// Copies, and returns the checksum of the source.
uint32_t Crc32cCopy(void* to, const void* from, size_t bytes);

// Two independent CRC32C of the content (the second over words times an odd constant), with the length. It tells two
// weight versions apart and finds damage; it is no defence against forgery.
uint64_t Checksum64(const void* data, size_t bytes);

// The ways to compute it, worst first; and the best this machine has. Tests compare them.
enum class CrcPath { kTables, kInstruction, kFold };
CrcPath BestCrcPath();
const char* NameOf(CrcPath path);
// Takes the best path up to `path`.
uint32_t Crc32cBy(CrcPath path, const void* data, size_t bytes);
uint64_t Checksum64Plain(const void* data, size_t bytes);

}  // namespace agentrl::shm
