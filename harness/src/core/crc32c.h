// CRC-32C, the Castagnoli polynomial (RFC 3720, appendix B.4), of TFRecords and of zarr's chunks.
// zlib's crc32 is another polynomial. Header-only.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dp_bench::core {

inline std::uint32_t Crc32c(std::string_view bytes) {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41, lowest bit first
  // the remainder for each value of a byte
  static constexpr std::array<std::uint32_t, 256> kTable = [] {
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
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint8_t>(byte)) & 0xFF];
  }
  return ~crc;
}

}  // namespace dp_bench::core
