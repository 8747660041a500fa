#include "tensorboard/tfrecord.h"

#include <bit>
#include <cstdint>

#include "tensorboard/crc32c.h"
#include "tensorboard/little_endian.h"

namespace dp_bench {
namespace {

// tensorflow/core/lib/hash/crc32c.h: the CRC of bytes that hold their own CRC would be degenerate.
std::uint32_t MaskedCrc32c(std::string_view bytes) {
  return std::rotr(Crc32c(bytes), 15) + 0xA282EAD8;
}

}  // namespace

void AppendTfRecord(std::string_view data, std::string* out) {
  std::string length;
  AppendLittleEndian(std::uint64_t{data.size()}, &length);
  *out += length;
  AppendLittleEndian(MaskedCrc32c(length), out);
  *out += data;
  AppendLittleEndian(MaskedCrc32c(data), out);
}

}  // namespace dp_bench
