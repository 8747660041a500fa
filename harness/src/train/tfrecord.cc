#include "train/tfrecord.h"

#include <array>
#include <bit>
#include <cstdint>

#include "core/proto_encoder.h"

namespace dp_bench::train {

namespace {

// tensorflow/core/lib/hash/crc32c.h masks the CRC, because the CRC of bytes that contain their own
// CRC would be degenerate.
std::uint32_t MaskedCrc32c(std::string_view bytes) {
  return std::rotr(Crc32c(bytes), 15) + 0xA282EAD8;
}

}  // namespace

void AppendTfRecord(std::string_view data, std::string* out) {
  std::string length;
  core::AppendLittleEndian(std::uint64_t{data.size()}, &length);
  *out += length;
  core::AppendLittleEndian(MaskedCrc32c(length), out);
  *out += data;
  core::AppendLittleEndian(MaskedCrc32c(data), out);
}

namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41, lowest bit first

// The remainder for each value of a byte.
constexpr std::array<std::uint32_t, 256> kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? kPolynomial : 0);
    }
    table[byte] = remainder;
  }
  return table;
}();

}  // namespace

std::uint32_t Crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint8_t>(byte)) & 0xFF];
  }
  return ~crc;
}

}  // namespace dp_bench::train
