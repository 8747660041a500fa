// Reader and writer of the safetensors format; the header's rules are those of the reference
// implementation: offsets relative to the buffer, no gap, no overlap, no unused bytes.
#include "run/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/half.h"
#include "core/json.h"
#include "core/regular_file.h"

namespace dp_bench::run {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");

constexpr std::uint64_t kMaxHeaderBytes = 16ULL << 20;
constexpr std::size_t kMaxRank = 32;
constexpr std::string_view kMetadataKey = "__metadata__";

/// A type of numbers in a file, and the one in memory that it is read as.
struct StoredType {
  std::string_view name;
  DType dtype;
  std::size_t size;                          // bytes of a number in the file
  float (*widen)(std::uint16_t) = nullptr;   // from 16 bits; null: as in memory
  std::uint16_t (*narrow)(float) = nullptr;  // to 16 bits
  std::uint16_t largest = 0;                 // finite number of 16 bits
};
constexpr std::array<StoredType, 8> kStoredTypes = {
    {{"U8", DType::kUInt8, 1},
     {"U16", DType::kUInt16, 2},
     {"I32", DType::kInt32, 4},
     {"I64", DType::kInt64, 8},
     {"F32", DType::kFloat32, 4},
     {"F64", DType::kFloat64, 8},
     {"F16", DType::kFloat32, 2, &core::FromFloat16, &core::ToFloat16, 0x7BFF},
     {"BF16", DType::kFloat32, 2, &core::FromBfloat16, &core::ToBfloat16, 0x7F7F}}};

/// A tensor as the header describes it.
struct Entry {
  std::string name;
  const StoredType* type = nullptr;
  Shape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::string NotValid(const fs::path& path) {
  return fmt::format("'{}' is not a valid safetensors file", path.string());
}

[[noreturn]] void FailFormat(const fs::path& path, const std::string& what) {
  throw CheckpointError("{}: {}", NotValid(path), what);
}

const StoredType& ReadType(const core::JsonView& tensor) {
  const auto text = tensor.Get<std::string>("dtype");
  const auto* known = std::ranges::find(kStoredTypes, text, &StoredType::name);
  if (known != kStoredTypes.end()) return *known;
  tensor.Fail("has dtype '{}'; supported: U8, U16, I32, I64, F16, BF16, F32, F64", text);
}

Shape ReadSizes(const core::JsonView& tensor, const char* key) {
  Shape sizes = tensor.Get<Shape>(key);
  const bool is_negative = std::ranges::any_of(sizes, [](std::int64_t n) { return n < 0; });
  if (is_negative || sizes.size() > kMaxRank) {
    tensor.Fail("{} is not a list of at most {} sizes", key, kMaxRank);
  }
  return sizes;
}

/// Checked product of the shape and the element size.
std::uint64_t ByteSize(const core::JsonView& tensor, const Entry& entry) {
  std::uint64_t bytes = entry.type->size;
  for (const std::int64_t size : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) {
      tensor.Fail("shape {} overflows", ToString(entry.shape));
    }
  }
  return bytes;
}

Entry ReadEntry(const std::string& name, const core::JsonView& tensor) {
  Entry entry = {.name = name, .type = &ReadType(tensor), .shape = ReadSizes(tensor, "shape")};
  const Shape offsets = ReadSizes(tensor, "data_offsets");
  if (tensor.json().size() != 3 || offsets.size() != 2 || offsets[0] > offsets[1]) {
    tensor.Fail("needs dtype, shape and data_offsets [begin, end]");
  }
  entry.begin = static_cast<std::uint64_t>(offsets[0]);
  entry.end = static_cast<std::uint64_t>(offsets[1]);
  const std::uint64_t wanted = ByteSize(tensor, entry);
  if (entry.end - entry.begin != wanted) {
    tensor.Fail("shape {} needs {} bytes, data_offsets give {}", ToString(entry.shape), wanted,
                entry.end - entry.begin);
  }
  return entry;
}

/// The tensors in file order; they must fill the buffer exactly.
std::vector<Entry> ReadEntries(const fs::path& path, const core::JsonView& header,
                               std::uint64_t buffer_bytes) {
  std::vector<Entry> entries;
  for (const auto& [name, tensor] : header.Members()) {
    if (name != kMetadataKey) entries.push_back(ReadEntry(name, tensor));
  }
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
  std::uint64_t position = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != position) {
      FailFormat(path, fmt::format("tensor '{}' begins at byte {}, expected {}: gap or overlap",
                                   entry.name, entry.begin, position));
    }
    position = entry.end;
  }
  if (position != buffer_bytes) {
    FailFormat(path,
               fmt::format("the tensors take {} bytes, the file holds {}", position, buffer_bytes));
  }
  return entries;
}

Array ReadTensor(core::RegularFile& file, const Entry& entry) {
  Array array(entry.type->dtype, entry.shape);
  if (entry.type->widen == nullptr) {
    file.ReadExactly(array.bytes());
    return array;
  }
  std::vector<std::uint16_t> stored(static_cast<std::size_t>(array.size()));
  file.ReadExactly(std::as_writable_bytes(std::span(stored)));
  std::ranges::transform(stored, array.as<float>().begin(), entry.type->widen);
  return array;
}

/// A tensor to write.
struct OutgoingTensor {
  std::string name;
  const Array* array;
  const StoredType* type;

  std::size_t byte_size() const { return static_cast<std::size_t>(array->size()) * type->size; }
};

const StoredType& TypeToStore(DType dtype, FloatStorage storage) {
  if (dtype != DType::kFloat32 || storage == FloatStorage::kFloat32) {
    return *std::ranges::find(kStoredTypes, dtype, &StoredType::dtype);
  }
  const char* name = storage == FloatStorage::kFloat16 ? "F16" : "BF16";
  return *std::ranges::find(kStoredTypes, name, &StoredType::name);
}

/// Descending element size keeps every tensor aligned to its elements.
std::vector<OutgoingTensor> InFileOrder(const ArrayMap& tensors, FloatStorage storage) {
  std::vector<OutgoingTensor> order;
  for (const auto& [name, array] : tensors) {
    order.push_back({name, &array, &TypeToStore(array.dtype(), storage)});
  }
  std::ranges::stable_sort(order, std::greater<>(),
                           [](const OutgoingTensor& tensor) { return tensor.type->size; });
  return order;
}

std::string HeaderText(const std::vector<OutgoingTensor>& order,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  std::size_t position = 0;
  for (const OutgoingTensor& tensor : order) {
    nlohmann::ordered_json& entry = header[tensor.name];
    entry["dtype"] = tensor.type->name;
    entry["shape"] = tensor.array->shape();
    entry["data_offsets"] = {position, position + tensor.byte_size()};
    position += tensor.byte_size();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

void WriteTensor(core::AtomicFile* file, const OutgoingTensor& tensor, const fs::path& path) {
  if (tensor.type->widen == nullptr) {
    file->Write(tensor.array->bytes());
    return;
  }
  std::vector<std::uint16_t> stored;
  stored.reserve(static_cast<std::size_t>(tensor.array->size()));
  for (const float value : tensor.array->as<float>()) {
    stored.push_back(tensor.type->narrow(value));
    if (std::isfinite(value) && !std::isfinite(tensor.type->widen(stored.back()))) {
      throw CheckpointError(
          "'{}' cannot be stored as {}: tensor '{}' contains {}, expected at most {} in magnitude",
          path.string(), tensor.type->name, tensor.name, value,
          tensor.type->widen(tensor.type->largest));
    }
  }
  file->Write(std::as_bytes(std::span(stored)));
}

}  // namespace

Safetensors ReadSafetensors(const fs::path& path, std::uint64_t max_bytes) {
  core::RegularFile file(path, max_bytes);
  std::uint64_t header_bytes = 0;
  if (file.size() < sizeof(header_bytes)) {
    FailFormat(path, "shorter than the 8 bytes of the header length");
  }
  file.ReadExactly(std::as_writable_bytes(std::span(&header_bytes, 1)));
  if (header_bytes > kMaxHeaderBytes || header_bytes > file.size() - sizeof(header_bytes)) {
    FailFormat(path, fmt::format("a header of {} bytes in a file of {} (at most {} are accepted)",
                                 header_bytes, file.size(), kMaxHeaderBytes));
  }

  // check the whole header before allocating tensors
  std::string text(header_bytes, '\0');
  file.ReadExactly(std::as_writable_bytes(std::span(text)));
  if (!text.starts_with('{')) FailFormat(path, "the header does not begin with '{'");
  const std::string what = NotValid(path);
  const Json json = core::ParseJson(text, what, ErrorCode::kCheckpoint);
  const core::JsonView header(json, what, ErrorCode::kCheckpoint);
  Safetensors result;
  if (json.contains(kMetadataKey)) {
    for (const auto& [key, value] : header.At(kMetadataKey).Members()) {
      result.metadata[key] = value.As<std::string>();
    }
  }
  const std::vector<Entry> entries =
      ReadEntries(path, header, file.size() - sizeof(header_bytes) - header_bytes);

  for (const Entry& entry : entries) {
    result.tensors.emplace(entry.name, ReadTensor(file, entry));
  }
  return result;
}

void WriteSafetensors(const fs::path& path, const ArrayMap& tensors,
                      const std::map<std::string, std::string>& metadata, FloatStorage storage) {
  if (tensors.contains(kMetadataKey)) {
    throw CheckpointError("a tensor of '{}' is named __metadata__, which the format reserves",
                          path.string());
  }
  const std::vector<OutgoingTensor> order = InFileOrder(tensors, storage);
  std::string text;
  try {
    text = HeaderText(order, metadata);
  } catch (const Json::exception& error) {
    throw CheckpointError("a name in '{}' cannot be written as JSON: {}", path.string(),
                          error.what());
  }
  if (text.size() > kMaxHeaderBytes) {
    throw CheckpointError("the header of '{}' would take {} bytes, limit {}", path.string(),
                          text.size(), kMaxHeaderBytes);
  }
  const std::uint64_t header_bytes = text.size();
  core::AtomicFile file(path);
  file.Write(std::as_bytes(std::span(&header_bytes, 1)));
  file.Write(text);
  for (const OutgoingTensor& tensor : order) WriteTensor(&file, tensor, path);
  file.Commit();
}

}  // namespace dp_bench::run
