// TFRecord framing (tensorflow/core/lib/io/record_writer.h): a sequence of records of any length in
// a file, in which a reader detects damaged and incomplete records. All numbers are little endian:
//   uint64 length | uint32 masked CRC-32C of length | data | uint32 masked CRC-32C of data
#pragma once

#include <string>
#include <string_view>

namespace dp_bench::train {

/// Appends `data` as one record to `out`.
void AppendTfRecord(std::string_view data, std::string* out);

}  // namespace dp_bench::train
