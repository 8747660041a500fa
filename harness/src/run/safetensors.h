// The safetensors file format (Hugging Face). Torch-free.
//   u64 little-endian header length N | N bytes of JSON, padded with spaces | the tensors' bytes
// Our limits: N at most 16 MB (the format allows 100 MB); dtypes U8, U16, I32, I64, F32, F64;
// F16 and BF16 are read as float32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "dp_bench/array.h"

namespace dp_bench::run {

struct Safetensors {
  ArrayMap tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads and checks a whole file. Checks every size, shape and offset before allocating. Throws
/// Error{kCheckpoint} naming the file and the problem, Error{kIo} if the file cannot be read or has
/// more than `max_bytes`.
Safetensors ReadSafetensors(const std::filesystem::path& path,
                            std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max());

/// How float32 tensors lie in a file. In the other two they take half of the bytes, and each number
/// is rounded: to eleven significant bits in float16, to eight in bfloat16.
enum class FloatStorage : std::uint8_t { kFloat32, kFloat16, kBfloat16 };

/// Their names, in the order of the enum.
inline constexpr std::array<std::string_view, 3> kFloatStorageNames = {"float32", "float16",
                                                                       "bfloat16"};
inline std::string_view Name(FloatStorage storage) {
  return kFloatStorageNames[static_cast<std::size_t>(storage)];
}

/// Writes atomically (core/atomic_file.h). Equal tensors and metadata give equal bytes: tensors are
/// sorted by descending element size, then by name, so that each one is aligned. Throws
/// Error{kCheckpoint} naming a tensor with a number that is finite but not in 16 bits.
void WriteSafetensors(const std::filesystem::path& path, const ArrayMap& tensors,
                      const std::map<std::string, std::string>& metadata = {},
                      FloatStorage storage = FloatStorage::kFloat32);

}  // namespace dp_bench::run
