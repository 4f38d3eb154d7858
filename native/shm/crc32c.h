// CRC32C (Castagnoli, RFC 3720 appendix B.4) with the processor's instruction where it has one, chosen at run time, and
// tables elsewhere; and the 64-bit checksum of weights built from the same instruction.
#pragma once
#include <cstddef>
#include <cstdint>

namespace agentrl::shm {

uint32_t Crc32c(const void* data, size_t bytes);
// Copies and returns the checksum of what was copied, in one pass: the copy is then about as fast as memcpy alone.
uint32_t Crc32cCopy(void* to, const void* from, size_t bytes);

// Two independent CRC32C of the content (the second over words times an odd constant), with the length. It tells two
// weight versions apart and finds damage; it is no defence against forgery.
uint64_t Checksum64(const void* data, size_t bytes);

// The table variants, for tests and for machines without the instruction.
uint32_t Crc32cPlain(const void* data, size_t bytes);
uint64_t Checksum64Plain(const void* data, size_t bytes);
// "sse4.2", "armv8-crc" or "tables".
const char* Crc32cVariant();

}  // namespace agentrl::shm
