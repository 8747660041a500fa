#include "train/tfrecord.h"

#include <bit>
#include <cstdint>

#include "core/crc32c.h"
#include "core/proto_encoder.h"

namespace dp_bench::train {

namespace {

// tensorflow/core/lib/hash/crc32c.h masks the CRC, because the CRC of bytes that contain their own
// CRC would be degenerate.
std::uint32_t MaskedCrc32c(std::string_view bytes) {
  return std::rotr(core::Crc32c(bytes), 15) + 0xA282EAD8;
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

}  // namespace dp_bench::train
