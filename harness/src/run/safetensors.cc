// Reader and writer of the safetensors format; the header's rules are those of the reference
// implementation: offsets relative to the buffer, no gap, no overlap, no unused bytes.
#include "run/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/json.h"
#include "core/regular_file.h"
#include "dp_bench/error.h"

namespace dp_bench::run {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");

constexpr std::uint64_t kMaxHeaderBytes = 16ULL << 20;
constexpr std::size_t kMaxRank = 32;
constexpr std::string_view kMetadataKey = "__metadata__";

struct DTypeName {
  DType dtype;
  std::string_view name;
};
constexpr std::array<DTypeName, 6> kDTypeNames = {{{DType::kUInt8, "U8"},
                                                   {DType::kUInt16, "U16"},
                                                   {DType::kInt32, "I32"},
                                                   {DType::kInt64, "I64"},
                                                   {DType::kFloat32, "F32"},
                                                   {DType::kFloat64, "F64"}}};

/// A tensor as the header describes it.
struct Entry {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

[[noreturn]] void FailFormat(const fs::path& path, const std::string& what) {
  throw Error(ErrorCode::kCheckpoint,
              fmt::format("'{}' is not a valid safetensors file: {}", path.string(), what));
}

Json ParseHeader(const fs::path& path, const std::string& text) {
  if (text.empty() || text.front() != '{') FailFormat(path, "the header does not begin with '{'");
  try {
    return core::ParseJson(text, "the header", ErrorCode::kCheckpoint);
  } catch (const Error& error) {
    FailFormat(path, error.what());
  }
}

const Json& Field(const fs::path& path, const std::string& name, const Json& json,
                  const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) FailFormat(path, fmt::format("tensor '{}' has no '{}'", name, key));
  return *found;
}

DType ReadDType(const fs::path& path, const std::string& name, const Json& json) {
  const Json& field = Field(path, name, json, "dtype");
  if (!field.is_string()) FailFormat(path, fmt::format("tensor '{}': dtype is not a string", name));
  const std::string text = field.get<std::string>();
  for (const DTypeName& known : kDTypeNames) {
    if (known.name == text) return known.dtype;
  }
  FailFormat(path, fmt::format("tensor '{}' has dtype '{}'; supported: U8, U16, I32, I64, F32, F64",
                               name, text));
}

/// A list of at most kMaxRank unsigned integers below 2^63.
Shape ReadIntegers(const fs::path& path, const std::string& name, const Json& json,
                   const char* key) {
  const Json& field = Field(path, name, json, key);
  Shape values;
  bool is_valid = field.is_array() && field.size() <= kMaxRank;
  if (is_valid) {
    for (const Json& value : field) {
      is_valid = is_valid && value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
      if (is_valid) values.push_back(value.get<std::int64_t>());
    }
  }
  if (!is_valid) {
    FailFormat(path, fmt::format("tensor '{}': {} is not a list of at most {} sizes", name, key,
                                 kMaxRank));
  }
  return values;
}

/// Checked product of the shape and the element size.
std::uint64_t ByteSize(const fs::path& path, const Entry& entry) {
  std::uint64_t bytes = SizeOf(entry.dtype);
  for (const std::int64_t size : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) {
      FailFormat(path,
                 fmt::format("tensor '{}': shape {} overflows", entry.name, ToString(entry.shape)));
    }
  }
  return bytes;
}

Entry ReadEntry(const fs::path& path, const std::string& name, const Json& json) {
  if (!json.is_object())
    FailFormat(path, fmt::format("tensor '{}' is not described by an object", name));
  Entry entry;
  entry.name = name;
  entry.dtype = ReadDType(path, name, json);
  entry.shape = ReadIntegers(path, name, json, "shape");
  const Shape offsets = ReadIntegers(path, name, json, "data_offsets");
  if (json.size() != 3 || offsets.size() != 2 || offsets[0] > offsets[1]) {
    FailFormat(path,
               fmt::format("tensor '{}' needs dtype, shape and data_offsets [begin, end]", name));
  }
  entry.begin = static_cast<std::uint64_t>(offsets[0]);
  entry.end = static_cast<std::uint64_t>(offsets[1]);
  const std::uint64_t wanted = ByteSize(path, entry);
  if (entry.end - entry.begin != wanted) {
    FailFormat(path, fmt::format("tensor '{}' of shape {} needs {} bytes, data_offsets give {}",
                                 name, ToString(entry.shape), wanted, entry.end - entry.begin));
  }
  return entry;
}

std::map<std::string, std::string> ReadMetadata(const fs::path& path, const Json& json) {
  std::map<std::string, std::string> metadata;
  if (!json.is_object()) FailFormat(path, "__metadata__ is not an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) FailFormat(path, fmt::format("metadata '{}' is not a string", key));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

/// The tensors in file order; they must fill the buffer exactly.
std::vector<Entry> ReadEntries(const fs::path& path, const Json& header,
                               std::uint64_t buffer_bytes) {
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name != kMetadataKey) entries.push_back(ReadEntry(path, name, json));
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

/// Bytes in memory with the interface of a RegularFile.
class MemorySource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const { return bytes_.size(); }
  void ReadExactly(std::span<std::byte> out) {
    DPB_ASSERT(out.size() <= bytes_.size() - position_);
    std::ranges::copy(bytes_.subspan(position_, out.size()), out.begin());
    position_ += out.size();
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

template <class Source>
Safetensors ReadFrom(Source& file, const fs::path& path) {
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
  const Json header = ParseHeader(path, text);
  Safetensors result;
  if (header.contains(kMetadataKey)) result.metadata = ReadMetadata(path, header[kMetadataKey]);
  const std::vector<Entry> entries =
      ReadEntries(path, header, file.size() - sizeof(header_bytes) - header_bytes);

  for (const Entry& entry : entries) {
    Array array(entry.dtype, entry.shape);
    file.ReadExactly(array.bytes());
    result.tensors.emplace(entry.name, std::move(array));
  }
  return result;
}

std::string_view FormatName(DType dtype) {
  return std::ranges::find(kDTypeNames, dtype, &DTypeName::dtype)->name;
}

/// Descending element size keeps every tensor aligned to its elements.
std::vector<std::pair<std::string, const Array*>> InFileOrder(const ArrayPointers& tensors) {
  std::vector<std::pair<std::string, const Array*>> order(tensors.begin(), tensors.end());
  std::ranges::stable_sort(order, std::greater<>(),
                           [](const auto& item) { return SizeOf(item.second->dtype()); });
  return order;
}

std::string HeaderText(const std::vector<std::pair<std::string, const Array*>>& order,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  std::size_t position = 0;
  for (const auto& [name, array] : order) {
    nlohmann::ordered_json& entry = header[name];
    entry["dtype"] = FormatName(array->dtype());
    entry["shape"] = array->shape();
    entry["data_offsets"] = {position, position + array->byte_size()};
    position += array->byte_size();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

Safetensors ReadSafetensors(const fs::path& path, std::uint64_t max_bytes) {
  core::RegularFile file(path, max_bytes);
  return ReadFrom(file, path);
}

Safetensors ParseSafetensors(std::span<const std::byte> bytes, const fs::path& path) {
  MemorySource source(bytes);
  return ReadFrom(source, path);
}

void WriteSafetensors(const fs::path& path, const ArrayPointers& tensors,
                      const std::map<std::string, std::string>& metadata) {
  if (tensors.contains(std::string(kMetadataKey))) {
    throw Error(ErrorCode::kCheckpoint,
                fmt::format("a tensor of '{}' is named __metadata__, which the format reserves",
                            path.string()));
  }
  const auto order = InFileOrder(tensors);
  std::string text;
  try {
    text = HeaderText(order, metadata);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kCheckpoint, fmt::format("a name in '{}' cannot be written as JSON: {}",
                                                    path.string(), error.what()));
  }
  if (text.size() > kMaxHeaderBytes) {
    throw Error(ErrorCode::kCheckpoint,
                fmt::format("the header of '{}' would take {} bytes, limit {}", path.string(),
                            text.size(), kMaxHeaderBytes));
  }
  const std::uint64_t header_bytes = text.size();
  core::AtomicFile file(path);
  file.Write(std::as_bytes(std::span(&header_bytes, 1)));
  file.Write(text);
  for (const auto& [name, array] : order) file.Write(array->bytes());
  file.Commit();
}

void WriteSafetensors(const fs::path& path, const ArrayMap& tensors,
                      const std::map<std::string, std::string>& metadata) {
  ArrayPointers pointers;
  for (const auto& [name, array] : tensors) pointers[name] = &array;
  WriteSafetensors(path, pointers, metadata);
}

}  // namespace dp_bench::run
