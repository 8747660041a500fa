// CRC-32C, the Castagnoli polynomial (RFC 3720, appendix B.4). zlib's crc32 is another polynomial.
#pragma once

#include <cstdint>
#include <string_view>

namespace dp_bench {

std::uint32_t Crc32c(std::string_view bytes);

}  // namespace dp_bench
