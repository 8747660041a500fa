// TFRecord framing (tensorflow/core/lib/io/record_writer.h): how records of any length follow each
// other in a file, so that a reader notices a damaged or unfinished one. All numbers are little
// endian:
//   uint64 length | uint32 masked CRC-32C of length | data | uint32 masked CRC-32C of data
#pragma once

#include <string>
#include <string_view>

namespace dp_bench {

/// Appends `data` as one record to `out`.
void AppendTfRecord(std::string_view data, std::string* out);

}  // namespace dp_bench
