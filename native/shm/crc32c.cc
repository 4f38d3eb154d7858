#include "crc32c.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "crc32c_fold.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#define AGENTRL_CRC_HARDWARE 1
#define AGENTRL_CRC_TARGET __attribute__((target("sse4.2")))
#elif defined(__aarch64__)
#include <arm_acle.h>
#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#define AGENTRL_CRC_HARDWARE 1
#if defined(__clang__)
#define AGENTRL_CRC_TARGET __attribute__((target("crc")))
#else
#define AGENTRL_CRC_TARGET __attribute__((target("+crc")))
#endif
#endif

namespace agentrl::shm {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected
constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][b]: the register after byte b and k further zero bytes ("slicing by eight").
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}
constexpr Tables kTables = MakeTables();

inline uint64_t Load(const uint8_t* from) {
  uint64_t word;
  memcpy(&word, from, sizeof word);
  return word;
}

inline uint32_t StepTable(uint32_t crc, uint64_t word) {
  word ^= crc;
  return kTables[7][word & 0xff] ^ kTables[6][(word >> 8) & 0xff] ^ kTables[5][(word >> 16) & 0xff] ^
         kTables[4][(word >> 24) & 0xff] ^ kTables[3][(word >> 32) & 0xff] ^ kTables[2][(word >> 40) & 0xff] ^
         kTables[1][(word >> 48) & 0xff] ^ kTables[0][word >> 56];
}

// The last, incomplete word of a buffer, filled up with zeros.
inline uint64_t LoadTail(const uint8_t* from, size_t bytes) {
  uint64_t word = 0;
  memcpy(&word, from, bytes);
  return word;
}

// Even words go through a0 and b0, odd ones through a1 and b1.
struct ChecksumLanes {
  uint32_t a0 = ~0u, a1 = ~0u, b0 = ~0u, b1 = ~0u;
};

// How the odd lane joins the even one: in the upper half of a word. In the lower half it would be plainly XORed to the
// even lane, and the change of two neighbours that trade places would cancel.
inline uint64_t Shifted(uint32_t lane) { return static_cast<uint64_t>(lane) << 32; }

#if defined(AGENTRL_CRC_HARDWARE)

#if defined(__x86_64__)
AGENTRL_CRC_TARGET inline uint32_t Step8(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(_mm_crc32_u64(crc, word));
}
AGENTRL_CRC_TARGET inline uint32_t Step1(uint32_t crc, uint8_t byte) { return _mm_crc32_u8(crc, byte); }
#else
AGENTRL_CRC_TARGET inline uint32_t Step8(uint32_t crc, uint64_t word) { return __crc32cd(crc, word); }
AGENTRL_CRC_TARGET inline uint32_t Step1(uint32_t crc, uint8_t byte) { return __crc32cb(crc, byte); }
#endif

// The instruction takes three cycles and can start every cycle, so three stretches of the buffer run side by side, and
// their registers are joined by appending zeros to the earlier ones (M. Adler, crc32c.c, 2013). Appending n zero bytes
// is linear over GF(2), so four tables of 256 entries do it. The long stretch is no multiple of a page: streams at equal
// page offsets would compete for the same cache sets.
constexpr size_t kLong = 2720;
constexpr size_t kShort = 256;

using ZeroTable = std::array<std::array<uint32_t, 256>, 4>;

ZeroTable MakeZeros(size_t bytes) {
  // columns[i]: the register that starts as bit i, after the zeros.
  std::array<uint32_t, 32> columns;
  for (int bit = 0; bit < 32; ++bit) {
    uint32_t crc = 1u << bit;
    for (size_t i = 0; i < bytes; ++i) crc = (crc >> 8) ^ kTables[0][crc & 0xff];
    columns[bit] = crc;
  }
  ZeroTable table{};
  for (int part = 0; part < 4; ++part) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t crc = 0;
      for (int bit = 0; bit < 8; ++bit) {
        if ((byte >> bit & 1) != 0) crc ^= columns[part * 8 + bit];
      }
      table[part][byte] = crc;
    }
  }
  return table;
}

const ZeroTable kLongZeros = MakeZeros(kLong);
const ZeroTable kShortZeros = MakeZeros(kShort);

inline uint32_t AppendZeros(const ZeroTable& table, uint32_t crc) {
  return table[0][crc & 0xff] ^ table[1][(crc >> 8) & 0xff] ^ table[2][(crc >> 16) & 0xff] ^ table[3][crc >> 24];
}

AGENTRL_CRC_TARGET uint32_t Stretches(size_t stretch, const ZeroTable& zeros, uint32_t crc, const uint8_t*& from,
                                      size_t& bytes) {
  while (bytes >= 3 * stretch) {
    uint32_t second = 0, third = 0;
    for (size_t i = 0; i < stretch; i += 8) {
      crc = Step8(crc, Load(from + i));
      second = Step8(second, Load(from + stretch + i));
      third = Step8(third, Load(from + 2 * stretch + i));
    }
    crc = AppendZeros(zeros, crc) ^ second;
    crc = AppendZeros(zeros, crc) ^ third;
    from += 3 * stretch;
    bytes -= 3 * stretch;
  }
  return crc;
}

AGENTRL_CRC_TARGET uint32_t Hardware(uint32_t crc, const uint8_t* from, size_t bytes) {
  crc = Stretches(kLong, kLongZeros, crc, from, bytes);
  crc = Stretches(kShort, kShortZeros, crc, from, bytes);
  for (; bytes >= 8; bytes -= 8, from += 8) crc = Step8(crc, Load(from));
  for (; bytes > 0; --bytes, ++from) crc = Step1(crc, *from);
  return crc;
}

AGENTRL_CRC_TARGET uint64_t ChecksumHardware(const uint8_t* from, size_t bytes) {
  const uint64_t length = bytes;
  ChecksumLanes lanes;
  for (; bytes >= 16; bytes -= 16, from += 16) {
    const uint64_t x = Load(from), y = Load(from + 8);
    lanes.a0 = Step8(lanes.a0, x);
    lanes.a1 = Step8(lanes.a1, y);
    lanes.b0 = Step8(lanes.b0, x * kOdd);
    lanes.b1 = Step8(lanes.b1, y * kOdd);
  }
  for (; bytes > 0;) {
    const size_t part = bytes < 8 ? bytes : 8;
    const uint64_t word = LoadTail(from, part);
    lanes.a0 = Step8(lanes.a0, word);
    lanes.b0 = Step8(lanes.b0, word * kOdd);
    from += part;
    bytes -= part;
  }
  const uint32_t a = Step8(Step8(lanes.a0, Shifted(lanes.a1)), length);
  const uint32_t b = Step8(Step8(lanes.b0, Shifted(lanes.b1)), length);
  return static_cast<uint64_t>(a) << 32 | b;
}

bool HasInstruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2");
#elif defined(__APPLE__)
  return true;
#elif defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#else
  return false;
#endif
}

#endif  // AGENTRL_CRC_HARDWARE

uint32_t ByTable(uint32_t crc, const uint8_t* from, size_t bytes) {
  for (; bytes >= 8; bytes -= 8, from += 8) crc = StepTable(crc, Load(from));
  for (; bytes > 0; --bytes, ++from) crc = (crc >> 8) ^ kTables[0][(crc ^ *from) & 0xff];
  return crc;
}

CrcPath FindBest() {
#if defined(AGENTRL_CRC_FOLD)
  if (CanFold()) return CrcPath::kFold;
#endif
#if defined(AGENTRL_CRC_HARDWARE)
  if (HasInstruction()) return CrcPath::kInstruction;
#endif
  return CrcPath::kTables;
}
const CrcPath kBest = FindBest();

// The register after `bytes` more.
uint32_t Continue(CrcPath path, uint32_t crc, const uint8_t* from, size_t bytes) {
#if defined(AGENTRL_CRC_FOLD)
  if (path == CrcPath::kFold && bytes >= 2 * kFoldBytes) {
    const size_t whole = bytes / kFoldBytes * kFoldBytes;
    crc = Fold(crc, from, whole);
    from += whole;
    bytes -= whole;
  }
#endif
#if defined(AGENTRL_CRC_HARDWARE)
  if (path != CrcPath::kTables) return Hardware(crc, from, bytes);
#endif
  (void)path;
  return ByTable(crc, from, bytes);
}

}  // namespace

CrcPath BestCrcPath() { return kBest; }

const char* NameOf(CrcPath path) {
  switch (path) {
    case CrcPath::kFold:
      return "vpclmulqdq";
    case CrcPath::kInstruction:
#if defined(__aarch64__)
      return "armv8-crc";
#else
      return "sse4.2";
#endif
    case CrcPath::kTables:
      return "tables";
  }
  return "";
}

uint32_t Crc32cBy(CrcPath path, const void* data, size_t bytes) {
  return ~Continue(std::min(path, kBest), ~0u, static_cast<const uint8_t*>(data), bytes);
}

uint64_t Checksum64Plain(const void* data, size_t bytes) {
  const uint8_t* from = static_cast<const uint8_t*>(data);
  const uint64_t length = bytes;
  ChecksumLanes lanes;
  for (; bytes >= 16; bytes -= 16, from += 16) {
    const uint64_t x = Load(from), y = Load(from + 8);
    lanes.a0 = StepTable(lanes.a0, x);
    lanes.a1 = StepTable(lanes.a1, y);
    lanes.b0 = StepTable(lanes.b0, x * kOdd);
    lanes.b1 = StepTable(lanes.b1, y * kOdd);
  }
  for (; bytes > 0;) {
    const size_t part = bytes < 8 ? bytes : 8;
    const uint64_t word = LoadTail(from, part);
    lanes.a0 = StepTable(lanes.a0, word);
    lanes.b0 = StepTable(lanes.b0, word * kOdd);
    from += part;
    bytes -= part;
  }
  const uint32_t a = StepTable(StepTable(lanes.a0, Shifted(lanes.a1)), length);
  const uint32_t b = StepTable(StepTable(lanes.b0, Shifted(lanes.b1)), length);
  return static_cast<uint64_t>(a) << 32 | b;
}

uint32_t Crc32c(const void* data, size_t bytes) {
  return ~Continue(kBest, ~0u, static_cast<const uint8_t*>(data), bytes);
}

uint32_t Crc32cCopy(void* to, const void* from, size_t bytes) {
  // In pieces that stay in the first-level cache between the copy and the checksum. memcpy rather than one loop for both:
  // the processor's own string copy does not read the lines it is about to overwrite. The checksum is of the source:
  // what a torn destination holds must not be what is vouched for.
  constexpr size_t kPiece = 16 << 10;
  uint32_t crc = ~0u;
  for (size_t at = 0; at < bytes; at += kPiece) {
    const size_t piece = std::min(kPiece, bytes - at);
    const uint8_t* source = static_cast<const uint8_t*>(from) + at;
    memcpy(static_cast<uint8_t*>(to) + at, source, piece);
    crc = Continue(kBest, crc, source, piece);
  }
  return ~crc;
}

uint64_t Checksum64(const void* data, size_t bytes) {
#if defined(AGENTRL_CRC_HARDWARE)
  if (kBest != CrcPath::kTables) return ChecksumHardware(static_cast<const uint8_t*>(data), bytes);
#endif
  return Checksum64Plain(data, bytes);
}

}  // namespace agentrl::shm
