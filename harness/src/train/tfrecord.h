// TFRecord framing (tensorflow/core/lib/io/record_writer.h): a sequence of records of any length in
// a file, in which a reader detects damaged and incomplete records. All numbers are little endian:
//   uint64 length | uint32 masked CRC-32C of length | data | uint32 masked CRC-32C of data
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dp_bench::train {

/// Appends `data` as one record to `out`.
void AppendTfRecord(std::string_view data, std::string* out);

// CRC-32C, the Castagnoli polynomial (RFC 3720, appendix B.4). zlib's crc32 is another polynomial.

std::uint32_t Crc32c(std::string_view bytes);

}  // namespace dp_bench::train
