// CRC32C by carry-less multiplication of 512-bit vectors (VPCLMULQDQ), which handles 256 bytes a round where the crc32
// instruction takes 8: fast enough that checking a record costs less than copying it.
//
// The message is a polynomial over GF(2), and only its remainder modulo P matters. A 128-bit piece A = (lo, hi) that
// stands D bytes before another piece B may be replaced by A * x^(8D) mod P added to B: two 64x32-bit products. In the
// reflected bit order of CRC32C the factors are x^(8D+31) for lo and x^(8D-33) for hi (V. Gopal et al., "Fast CRC
// Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009). What is left after the last round is
// 256 bytes with the remainder of all before them.
#pragma once
#if defined(__x86_64__)
#define AGENTRL_CRC_FOLD 1
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace agentrl::shm {

inline constexpr size_t kFoldBytes = 256;

// x^n mod P in reflected order.
constexpr uint32_t PowerOfX(int n) {
  uint32_t power = 0x80000000;  // x^0
  for (int i = 0; i < n; ++i) power = (power >> 1) ^ ((power & 1) != 0 ? 0x82f63b78 : 0);
  return power;
}
static_assert(PowerOfX(8 * 16 + 31) == 0xf20c0dfe && PowerOfX(8 * 16 - 33) == 0x493c7d27);

inline bool CanFold() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("vpclmulqdq") &&
         __builtin_cpu_supports("sse4.2");
}

// Folds `bytes` (a multiple of kFoldBytes, at least one) after the register `crc` and returns the register.
__attribute__((target("avx512f,avx512vl,avx512bw,vpclmulqdq,sse4.2"))) inline uint32_t Fold(uint32_t crc,
                                                                                           const uint8_t* from,
                                                                                           size_t bytes) {
  constexpr int64_t kLo = PowerOfX(8 * kFoldBytes + 31), kHi = PowerOfX(8 * kFoldBytes - 33);
  const __m512i factors = _mm512_set_epi64(kHi, kLo, kHi, kLo, kHi, kLo, kHi, kLo);
  __m512i part[4];
  for (int i = 0; i < 4; ++i) part[i] = _mm512_loadu_si512(from + 64 * i);
  part[0] = _mm512_xor_si512(part[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  for (from += kFoldBytes, bytes -= kFoldBytes; bytes > 0; from += kFoldBytes, bytes -= kFoldBytes) {
    for (int i = 0; i < 4; ++i) {
      const __m512i lo = _mm512_clmulepi64_epi128(part[i], factors, 0x00);
      const __m512i hi = _mm512_clmulepi64_epi128(part[i], factors, 0x11);
      part[i] = _mm512_ternarylogic_epi64(lo, hi, _mm512_loadu_si512(from + 64 * i), 0x96);  // lo ^ hi ^ next
    }
  }
  alignas(64) uint64_t rest[kFoldBytes / 8];
  for (int i = 0; i < 4; ++i) _mm512_store_si512(rest + 8 * i, part[i]);
  uint64_t left = 0;
  for (const uint64_t word : rest) left = _mm_crc32_u64(left, word);
  return static_cast<uint32_t>(left);
}

}  // namespace agentrl::shm
#endif
