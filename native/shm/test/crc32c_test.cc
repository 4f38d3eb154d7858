// CRC32C against published vectors, the instructions against the tables, and copying against not copying.
#include "../crc32c.h"

#include <cstring>
#include <initializer_list>
#include <vector>

#include "check.h"

using namespace agentrl::shm;

int main() {
  // RFC 3720 B.4, and the customary check value of the catalogue of CRCs.
  CHECK_EQ(Crc32c("123456789", 9), 0xe3069283u);
  uint8_t bytes[32];
  memset(bytes, 0, sizeof bytes);
  CHECK_EQ(Crc32c(bytes, 32), 0x8a9136aau);
  memset(bytes, 0xff, sizeof bytes);
  CHECK_EQ(Crc32c(bytes, 32), 0x62a8ab43u);
  for (int i = 0; i < 32; ++i) bytes[i] = static_cast<uint8_t>(i);
  CHECK_EQ(Crc32c(bytes, 32), 0x46dd794eu);
  for (int i = 0; i < 32; ++i) bytes[i] = static_cast<uint8_t>(31 - i);
  CHECK_EQ(Crc32c(bytes, 32), 0x113fdb5cu);
  CHECK_EQ(Crc32c("", 0), 0u);

  Random random{1};
  std::vector<uint8_t> data(100'000), copy(100'000);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random.Next());
  std::vector<size_t> lengths = {8160, 8159, 8161, 768, 767, 769, 16320, 65536, 99'990};
  for (size_t length = 0; length < 300; ++length) lengths.push_back(length);
  for (int i = 0; i < 200; ++i) lengths.push_back(random.Below(99'990));
  for (const size_t length : lengths) {
    const size_t shift = random.Below(9);  // any alignment
    const uint32_t expected = Crc32cBy(CrcPath::kTables, data.data() + shift, length);
    CHECK_EQ(Crc32cBy(CrcPath::kInstruction, data.data() + shift, length), expected);
    CHECK_EQ(Crc32cBy(CrcPath::kFold, data.data() + shift, length), expected);
    CHECK_EQ(Crc32c(data.data() + shift, length), expected);
    memset(copy.data(), 0xaa, length + 9);
    CHECK_EQ(Crc32cCopy(copy.data() + 1, data.data() + shift, length), expected);
    CHECK(memcmp(copy.data() + 1, data.data() + shift, length) == 0);
    CHECK_EQ(copy[0], 0xaa);
    CHECK_EQ(copy[length + 1], 0xaa);
    CHECK(Checksum64(data.data() + shift, length) == Checksum64Plain(data.data() + shift, length));
  }
  // Any one changed bit, exchanged words, and a cut end change the 64-bit checksum.
  const uint64_t whole = Checksum64(data.data(), 4096);
  for (size_t bit = 0; bit < 4096 * 8; bit += 37) {
    data[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    CHECK(Checksum64(data.data(), 4096) != whole);
    data[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
  }
  std::vector<uint8_t> swapped(data.begin(), data.begin() + 4096);
  for (int i = 0; i < 8; ++i) std::swap(swapped[16 + i], swapped[24 + i]);
  CHECK(Checksum64(swapped.data(), 4096) != whole);
  CHECK(Checksum64(data.data(), 4095) != whole);
  const std::vector<uint8_t> zeros(64);
  CHECK(Checksum64(zeros.data(), 64) != Checksum64(zeros.data(), 63));
  printf("crc32c: %s\n", NameOf(BestCrcPath()));
}
