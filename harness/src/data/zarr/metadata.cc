#include "data/zarr/metadata.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/json.h"
#include "dp_bench/error.h"

namespace dp_bench::zarr {
namespace {

using Json = nlohmann::json;

struct DTypeName {
  DType dtype;
  const char* name;
};

constexpr std::array<DTypeName, 6> kDTypeNames = {{{DType::kUInt8, "|u1"},
                                                   {DType::kUInt16, "<u2"},
                                                   {DType::kInt32, "<i4"},
                                                   {DType::kInt64, "<i8"},
                                                   {DType::kFloat32, "<f4"},
                                                   {DType::kFloat64, "<f8"}}};

constexpr int kMaxMetadataDepth = 32;
constexpr std::size_t kMaxAxes = 8;
constexpr std::int64_t kMaxChunkBytes = std::numeric_limits<std::int32_t>::max();

// Checked before the parser builds a value; a callback of the parser would take quadratic time.
bool IsTooDeep(std::string_view json) {
  int depth = 0;
  bool is_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') is_string = !is_string;
    if (is_string && c == '\\') ++i;
    if (is_string) continue;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kMaxMetadataDepth) return true;
  }
  return false;
}

// One .zarray file while it is read: every fault names the file and the field.
class Fields {
 public:
  Fields(std::span<const std::byte> text, const std::string& file) : file_(file) {
    const std::string_view json(reinterpret_cast<const char*>(text.data()), text.size());
    if (IsTooDeep(json)) {
      Fail("", fmt::format("is nested deeper than {} levels", kMaxMetadataDepth));
    }
    try {
      json_ = Json::parse(json);
    } catch (const Json::exception& error) {
      Fail("", fmt::format("is not JSON: {}", error.what()));
    }
    if (!json_.is_object()) Fail("", "is not a JSON object");
  }

  [[noreturn]] void Fail(std::string_view field, const std::string& what) const {
    throw Error(ErrorCode::kData, field.empty() ? fmt::format("{} {}", file_, what)
                                                : fmt::format("{}: {} {}", file_, field, what));
  }

  const Json& Get(const char* field) const {
    const auto found = json_.find(field);
    if (found == json_.end()) Fail(field, "is missing");
    return *found;
  }

  const Json* Find(const char* field) const {
    const auto found = json_.find(field);
    return found == json_.end() ? nullptr : &*found;
  }

  Shape GetSizes(const char* field, std::int64_t lowest) const {
    const Json& value = Get(field);
    if (!value.is_array() || value.empty() || value.size() > kMaxAxes) {
      Fail(field, fmt::format("is {}; expected a list of 1 to {} sizes", core::ShortDump(value),
                              kMaxAxes));
    }
    Shape sizes;
    for (const Json& size : value) {
      const bool fits = size.is_number_unsigned() &&
                        size.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max() &&
                        size.get<std::int64_t>() >= lowest;
      if (!fits)
        Fail(field, fmt::format("holds {}; expected integers of {} or more", core::ShortDump(size),
                                lowest));
      sizes.push_back(size.get<std::int64_t>());
    }
    return sizes;
  }

 private:
  std::string file_;
  Json json_;
};

DType ReadDType(const Fields& fields) {
  const Json& value = fields.Get("dtype");
  for (const DTypeName& entry : kDTypeNames) {
    if (value == entry.name) return entry.dtype;
  }
  fields.Fail("dtype", fmt::format("is {}; dp_bench reads |u1, <u2, <i4, <i8, <f4 and <f8",
                                   core::ShortDump(value)));
}

Compressor ReadCompressor(const Fields& fields) {
  const Json& value = fields.Get("compressor");
  if (value.is_null()) return Compressor::kNone;
  const auto id = value.is_object() ? value.find("id") : value.end();
  if (value.is_object() && id != value.end()) {
    if (*id == "blosc") return Compressor::kBlosc;
    if (*id == "zlib") return Compressor::kZlib;
    if (*id == "zstd") return Compressor::kZstd;
  }
  fields.Fail("compressor", fmt::format("is {}; dp_bench decodes null, zlib, zstd and blosc",
                                        core::ShortDump(value)));
}

void RequireLayout(const Fields& fields) {
  if (fields.Get("zarr_format") != 2) {
    fields.Fail("zarr_format",
                fmt::format("is {}; expected 2", core::ShortDump(fields.Get("zarr_format"))));
  }
  if (fields.Get("order") != "C") {
    fields.Fail("order",
                fmt::format("is {}; expected \"C\"", core::ShortDump(fields.Get("order"))));
  }
  const Json* filters = fields.Find("filters");
  if (filters != nullptr && !filters->is_null() && !(filters->is_array() && filters->empty())) {
    fields.Fail("filters", fmt::format("is {}; expected null", core::ShortDump(*filters)));
  }
}

char ReadSeparator(const Fields& fields) {
  const Json* separator = fields.Find("dimension_separator");
  if (separator == nullptr || *separator == ".") return '.';
  if (*separator == "/") return '/';
  fields.Fail("dimension_separator",
              fmt::format("is {}; expected \".\" or \"/\"", core::ShortDump(*separator)));
}

}  // namespace

ZarrMetadata ParseZarrMetadata(std::span<const std::byte> json, const std::string& file) {
  const Fields fields(json, file);
  RequireLayout(fields);
  ZarrMetadata metadata{.shape = fields.GetSizes("shape", 0),
                        .chunks = fields.GetSizes("chunks", 1),
                        .dtype = ReadDType(fields),
                        .compressor = ReadCompressor(fields),
                        .separator = ReadSeparator(fields)};
  if (metadata.shape.size() != metadata.chunks.size()) {
    fields.Fail("chunks", fmt::format("{} does not fit the shape {}", ToString(metadata.chunks),
                                      ToString(metadata.shape)));
  }

  // all products that are used later, to find overflow here
  const auto item = static_cast<std::int64_t>(SizeOf(metadata.dtype));
  std::int64_t total_bytes = item;
  metadata.chunk_bytes = item;
  metadata.num_chunks = 1;
  std::int64_t step_bytes = item;  // not covered by the total if there are no steps
  bool fits = true;
  for (std::size_t i = 0; i < metadata.shape.size(); ++i) {
    const std::int64_t size = metadata.shape[i];
    const std::int64_t chunk = metadata.chunks[i];
    const std::int64_t n = size / chunk + (size % chunk != 0 ? 1 : 0);
    fits = fits && !__builtin_mul_overflow(total_bytes, size, &total_bytes) &&
           (i == 0 || !__builtin_mul_overflow(step_bytes, size, &step_bytes)) &&
           !__builtin_mul_overflow(metadata.num_chunks, n, &metadata.num_chunks) &&
           !__builtin_mul_overflow(metadata.chunk_bytes, chunk, &metadata.chunk_bytes);
  }
  if (!fits || metadata.chunk_bytes > kMaxChunkBytes) {
    fields.Fail("shape",
                fmt::format("{} in chunks of {} is impossible; a chunk holds less than 2 GB",
                            ToString(metadata.shape), ToString(metadata.chunks)));
  }
  metadata.num_elements = total_bytes / item;
  return metadata;
}

std::string FormatZarrMetadata(const Shape& shape, const Shape& chunks, DType dtype) {
  const auto type = std::ranges::find(kDTypeNames, dtype, &DTypeName::dtype);
  DPB_ASSERT(type != kDTypeNames.end());
  const Json compressor = {{"id", "blosc"},
                           {"cname", kBloscCodec},
                           {"clevel", kBloscLevel},
                           {"shuffle", kBloscByteShuffle},
                           {"blocksize", 0}};
  const Json metadata = {{"zarr_format", 2}, {"shape", shape},      {"chunks", chunks},
                         {"order", "C"},     {"dtype", type->name}, {"compressor", compressor},
                         {"fill_value", 0},  {"filters", nullptr}};
  return metadata.dump(4);
}

std::string ChunkFile(std::span<const std::int64_t> indices, char separator) {
  return fmt::format("{}", fmt::join(indices, std::string_view(&separator, 1)));
}

}  // namespace dp_bench::zarr
