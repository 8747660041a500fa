#include "data/zarr/metadata.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "core/errors.h"
#include "core/json.h"
#include "data/reader/chunk_grid.h"
#include "data/reader/keyed_dataset.h"

namespace dp_bench::zarr {
namespace {

using Json = nlohmann::json;

using reader::kMaxAxes;
constexpr std::int64_t kMaxChunkBytes = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxShardChunks = std::int64_t{1} << 22;  // an index of 64 MB

constexpr const char* kHowToLeaveOut =
    " To read the others, name the arrays that you need in dataset.params.keys.";

// One .zarray or zarr.json while it is read: every fault names the file and the field.
class Fields {
 public:
  Fields(std::span<const std::byte> text, const std::string& file)
      : file_(file),
        json_(core::ParseJson({reinterpret_cast<const char*>(text.data()), text.size()}, file)) {}

  template <class... T>
  [[noreturn]] void Fail(std::string_view field, fmt::format_string<T...> what,
                         T&&... values) const {
    throw DataError("{}: {} {}", file_, field, fmt::format(what, std::forward<T>(values)...));
  }

  const Json& Get(const char* field) const {
    const Json* found = Find(field);
    if (found == nullptr) Fail(field, "is missing");
    return *found;
  }

  const Json* Find(const char* field) const {
    const auto found = json_.find(field);
    return found == json_.end() ? nullptr : &*found;
  }

  Shape GetSizes(const char* field, std::int64_t lowest) const {
    return ReadSizes(field, Get(field), lowest);
  }

  Shape ReadSizes(const char* field, const Json& value, std::int64_t lowest) const {
    if (!value.is_array() || value.size() > kMaxAxes) {
      Fail(field, "is {}; expected a list of up to {} sizes", core::ShortDump(value), kMaxAxes);
    }
    Shape sizes;
    for (const Json& size : value) {
      const bool fits = size.is_number_unsigned() &&
                        size.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max() &&
                        size.get<std::int64_t>() >= lowest;
      if (!fits)
        Fail(field, "holds {}; expected integers of {} or more", core::ShortDump(size), lowest);
      sizes.push_back(size.get<std::int64_t>());
    }
    return sizes;
  }

  void RequireValue(const char* field, const Json& value) const {
    if (Get(field) == value) return;
    Fail(field, "is {}; expected {}", core::ShortDump(Get(field)), value.dump());
  }

  void RequireEmpty(const char* field) const {
    const Json* value = Find(field);
    if (value == nullptr || value->is_null() || (value->is_array() && value->empty())) return;
    Fail(field, "is {}; expected none.{}", core::ShortDump(*value), kHowToLeaveOut);
  }

 private:
  std::string file_;
  Json json_;
};

const Json& MemberOf(const Json& object, const char* member) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(member);
  return found == object.end() ? kNothing : *found;
}

// The name of a codec: "zstd" of {"id": "zstd"}, "numcodecs.zstd" and {"name": "zstd"}.
std::string CodecName(const Json& codec, const char* field) {
  const Json& name = codec.is_object() ? MemberOf(codec, field) : codec;
  if (!name.is_string()) return "";
  const auto& text = name.get_ref<const std::string&>();
  constexpr std::string_view kRegistry = "numcodecs.";
  return text.starts_with(kRegistry) ? text.substr(kRegistry.size()) : text;
}

// Images are files that media::ImageDecoder reads, by the ids of imagecodecs.
constexpr std::array<std::pair<std::string_view, Compressor>, 8> kCompressors = {
    {{"blosc", Compressor::kBlosc},
     {"zlib", Compressor::kZlib},
     {"gzip", Compressor::kZlib},
     {"zstd", Compressor::kZstd},
     {"imagecodecs_jpegxl", Compressor::kImage},
     {"imagecodecs_jpeg2k", Compressor::kImage},
     {"imagecodecs_jpeg", Compressor::kImage},
     {"imagecodecs_png", Compressor::kImage}}};

Compressor ReadCompressor(const Fields& fields, const char* field, const Json& codec,
                          const char* name_field) {
  const std::string name = CodecName(codec, name_field);
  for (const auto& [known, compressor] : kCompressors) {
    if (name == known) return compressor;
  }
  fields.Fail(field,
              "is {}; dp_bench decodes blosc, zstd, zlib, gzip and imagecodecs' png, jpeg, jpeg2k "
              "and jpegxl.{}",
              name.empty() ? core::ShortDump(codec) : core::ShortDump(name), kHowToLeaveOut);
}

// All products that are used later, to find overflow here.
void CheckSizes(const Fields& fields, ZarrMetadata* metadata) {
  if (metadata->shape.size() != metadata->chunks.size()) {
    fields.Fail("chunks", "{} does not fit the shape {}", ToString(metadata->chunks),
                ToString(metadata->shape));
  }
  const auto item = static_cast<std::int64_t>(SizeOf(metadata->type));
  std::int64_t total_bytes = item;
  metadata->chunk_bytes = item;
  metadata->num_chunks = 1;
  std::int64_t step_bytes = item;  // not covered by the total if there are no steps
  bool fits = true;
  for (std::size_t i = 0; i < metadata->shape.size(); ++i) {
    const std::int64_t size = metadata->shape[i];
    const std::int64_t chunk = metadata->chunks[i];
    const std::int64_t n = size / chunk + (size % chunk != 0 ? 1 : 0);
    fits = fits && !__builtin_mul_overflow(total_bytes, size, &total_bytes) &&
           (i == 0 || !__builtin_mul_overflow(step_bytes, size, &step_bytes)) &&
           !__builtin_mul_overflow(metadata->num_chunks, n, &metadata->num_chunks) &&
           !__builtin_mul_overflow(metadata->chunk_bytes, chunk, &metadata->chunk_bytes);
  }
  if (!fits || metadata->chunk_bytes > kMaxChunkBytes) {
    fields.Fail("shape", "{} in chunks of {} is impossible; a chunk holds less than 2 GB",
                ToString(metadata->shape), ToString(metadata->chunks));
  }
  metadata->num_elements = total_bytes / item;
}

// An image file holds one image of bytes.
void CheckImages(const Fields& fields, const ZarrMetadata& metadata) {
  const Shape& chunks = metadata.chunks;
  const bool is_image = chunks.size() >= 3 && chunks.back() == 3 &&
                        NumElements(std::span(chunks).first(chunks.size() - 3)) == 1 &&
                        metadata.order.empty() && metadata.type == ElementType::kUInt8;
  if (metadata.compressor != Compressor::kImage || is_image) return;
  fields.Fail("chunks",
              "of images are {} of {}; dp_bench decodes one image [1, height, width, 3] of uint8 "
              "per chunk.{}",
              ToString(chunks), Name(metadata.type), kHowToLeaveOut);
}

// Sets `unreadable` instead of a type where the elements are no numbers.
void ReadShortType(const Fields& fields, ZarrMetadata* metadata) {
  const Json& value = fields.Get("dtype");
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const bool has_order =
      text.size() == 3 && std::string_view("<>|=").find(text[0]) != std::string::npos;
  if (const auto type = ElementTypeWithShortName(has_order ? text.substr(1) : "")) {
    metadata->type = *type;
    metadata->is_big_endian = text[0] == '>' && SizeOf(*type) > 1;
    return;
  }
  metadata->unreadable =
      fmt::format("dtype is {}; dp_bench reads numbers, such as <f4", core::ShortDump(value));
}

void RequireSteps(const Shape& shape, ZarrMetadata* metadata) {
  if (shape.empty() && metadata->unreadable.empty()) {
    metadata->unreadable = "shape is [], a single value; expected one for each step";
  }
}

void ReadOrder(const Fields& fields, ZarrMetadata* metadata) {
  const Json& order = fields.Get("order");
  if (order == "C") return;
  if (order != "F") fields.Fail("order", "is {}; expected \"C\" or \"F\"", core::ShortDump(order));
  if (metadata->shape.size() == 1) return;
  for (std::size_t axis = metadata->shape.size(); axis-- > 0;) {
    metadata->order.push_back(static_cast<std::int64_t>(axis));
  }
}

char ReadSeparator(const Fields& fields, const char* field, const Json* separator, char usual) {
  if (separator == nullptr) return usual;
  if (*separator == "." || *separator == "/") return separator->get_ref<const std::string&>()[0];
  fields.Fail(field, "is {}; expected \".\" or \"/\"", core::ShortDump(*separator));
}

// Version 3: the codecs of a chunk or of a shard's index, in the order of encoding.
class CodecReader {
 public:
  CodecReader(const Fields& fields, ZarrMetadata* metadata)
      : fields_(fields), metadata_(*metadata) {}

  void ReadAll(const Json& codecs) {
    if (!codecs.is_array()) Refuse(codecs);
    bool is_bytes = false;  // what follows works on bytes
    for (const Json& codec : codecs) {
      const std::string name = CodecName(codec, "name");
      const Json& settings = MemberOf(codec, "configuration");
      if (name == "transpose" && !is_bytes) {
        Transpose(MemberOf(settings, "order"));
      } else if (name == "bytes" && !is_bytes) {
        metadata_.is_big_endian =
            MemberOf(settings, "endian") == "big" && SizeOf(metadata_.type) > 1;
        is_bytes = true;
      } else if (name == "sharding_indexed" && codecs.size() == 1 && !metadata_.shards) {
        return Shard(settings);
      } else if (name == "crc32c" && is_bytes) {
        ++metadata_.n_checksums;
      } else {
        Compress(codec, is_bytes);
        is_bytes = true;
      }
    }
    if (!is_bytes) Refuse(codecs);
  }

 private:
  [[noreturn]] void Refuse(const Json& found) const {
    fields_.Fail("codecs", "hold {}, which is not expected here.{}", core::ShortDump(found),
                 kHowToLeaveOut);
  }

  void Compress(const Json& codec, bool is_bytes) {
    const Compressor compressor = ReadCompressor(fields_, "codecs", codec, "name");
    const bool is_first = metadata_.compressor == Compressor::kNone && metadata_.n_checksums == 0;
    if (!is_first || is_bytes == (compressor == Compressor::kImage)) Refuse(codec);
    metadata_.compressor = compressor;
  }

  // Several transpositions follow one another.
  void Transpose(const Json& order) {
    const std::size_t n = metadata_.shape.size();
    const Shape axes = fields_.ReadSizes("codecs", order, 0);
    Shape sorted = axes;
    std::ranges::sort(sorted);
    Shape all(n);
    std::iota(all.begin(), all.end(), 0);
    if (sorted != all) Refuse(order);
    const Shape before = metadata_.order.empty() ? all : metadata_.order;
    metadata_.order.clear();
    for (const std::int64_t axis : axes) {
      metadata_.order.push_back(before[static_cast<std::size_t>(axis)]);
    }
    if (metadata_.order == all) metadata_.order.clear();
  }

  void Shard(const Json& settings) {
    ShardLayout shards{.shape = metadata_.chunks};
    metadata_.chunks = fields_.ReadSizes("codecs", MemberOf(settings, "chunk_shape"), 1);
    bool fits = metadata_.chunks.size() == shards.shape.size();
    for (std::size_t i = 0; fits && i < shards.shape.size(); ++i) {
      fits = shards.shape[i] % metadata_.chunks[i] == 0 &&
             !__builtin_mul_overflow(shards.num_chunks, shards.shape[i] / metadata_.chunks[i],
                                     &shards.num_chunks) &&
             shards.num_chunks <= kMaxShardChunks;
    }
    if (!fits) {
      fields_.Fail("codecs",
                   "divide shards of {} into chunks of {}; expected whole chunks, at most {}",
                   ToString(shards.shape), ToString(metadata_.chunks), kMaxShardChunks);
    }
    const Json& location = MemberOf(settings, "index_location");
    if (!location.is_null() && location != "end" && location != "start") Refuse(location);
    shards.is_index_first = location == "start";

    ZarrMetadata index{.type = ElementType::kUInt64};
    CodecReader(fields_, &index).ReadAll(MemberOf(settings, "index_codecs"));
    if (index.compressor != Compressor::kNone || index.shards || !index.order.empty()) {
      Refuse(MemberOf(settings, "index_codecs"));
    }
    shards.is_index_big_endian = index.is_big_endian;
    shards.n_index_checksums = index.n_checksums;
    metadata_.shards = std::move(shards);
    ReadAll(MemberOf(settings, "codecs"));
  }

  const Fields& fields_;
  ZarrMetadata& metadata_;
};

void ReadChunkKeys(const Fields& fields, ZarrMetadata* metadata) {
  constexpr const char* kField = "chunk_key_encoding";
  const Json& encoding = fields.Get(kField);
  const std::string name = CodecName(encoding, "name");
  const Json& settings = MemberOf(encoding, "configuration");
  const auto separator = settings.is_object() ? settings.find("separator") : settings.end();
  const Json* const found = separator == settings.end() ? nullptr : &*separator;
  if (name == "v2") {
    metadata->separator = ReadSeparator(fields, kField, found, '.');
  } else if (name == "default") {
    metadata->separator = ReadSeparator(fields, kField, found, '/');
    metadata->chunk_prefix = std::string("c") + metadata->separator;
  } else {
    fields.Fail(kField, "is {}; expected default or v2", core::ShortDump(encoding));
  }
}

constexpr int kMaxAttributeDepth = 64;
constexpr const char* kAttributesMember = "attributes";

[[noreturn]] void RefuseAttributes(const std::string& file, const std::string& what) {
  throw DataError("{}: {}", file, what);
}

// Attributes of one value each; the list of tasks goes to `tasks`. Others are dropped as they are
// read: lists of a million episodes would take ten times the memory of their text.
Json PickAttributes(std::string_view text, const std::string& file, bool is_node,
                    std::vector<std::string>* tasks) {
  const int attribute_depth = is_node ? 2 : 1;  // in a zarr.json, the attributes are a member
  bool is_in_attributes = !is_node;
  bool is_in_tasks = false;
  const auto pick = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > kMaxAttributeDepth) {
      RefuseAttributes(file, fmt::format("nested deeper than {} levels", kMaxAttributeDepth));
    }
    if (event == Json::parse_event_t::value) {
      const bool is_task = is_in_tasks && depth == attribute_depth + 1 && parsed.is_string();
      if (is_task) tasks->push_back(parsed.get<std::string>());
      return depth <= attribute_depth;
    }
    if (event != Json::parse_event_t::key) return true;
    if (depth < attribute_depth) {
      is_in_tasks = false;
      is_in_attributes = parsed == kAttributesMember;
      return is_in_attributes;
    }
    if (depth == attribute_depth) is_in_tasks = is_in_attributes && parsed == kTasksAttribute;
    return depth == attribute_depth && (parsed == kFpsAttribute || parsed == kCompleteAttribute);
  };
  Json root;
  try {
    root = Json::parse(text, pick);
  } catch (const Json::exception& fault) {
    constexpr std::size_t kMaxReason = 300;  // it quotes the text, which may be huge
    RefuseAttributes(
        file, fmt::format("is not JSON: {}", std::string_view(fault.what()).substr(0, kMaxReason)));
  }
  if (!root.is_object()) RefuseAttributes(file, "is not a JSON object");
  if (!is_node) return root;
  const auto own = root.find(kAttributesMember);
  return own != root.end() && own->is_object() ? *own : Json::object();
}

}  // namespace

ZarrMetadata ParseZarrMetadata(std::span<const std::byte> json, const std::string& file) {
  const Fields fields(json, file);
  fields.RequireValue("zarr_format", 2);
  ZarrMetadata metadata{.shape = fields.GetSizes("shape", 0)};
  ReadShortType(fields, &metadata);
  RequireSteps(metadata.shape, &metadata);
  if (!metadata.unreadable.empty()) return metadata;
  metadata.chunks = fields.GetSizes("chunks", 1);
  CheckSizes(fields, &metadata);
  ReadOrder(fields, &metadata);
  fields.RequireEmpty("filters");
  const Json& compressor = fields.Get("compressor");
  if (!compressor.is_null()) {
    metadata.compressor = ReadCompressor(fields, "compressor", compressor, "id");
  }
  CheckImages(fields, metadata);
  metadata.separator =
      ReadSeparator(fields, "dimension_separator", fields.Find("dimension_separator"), '.');
  if (const Json* fill = fields.Find("fill_value")) {
    metadata.fill = ParseFillValue(*fill, metadata.type);
  }
  return metadata;
}

std::optional<ZarrMetadata> ParseZarrNode(std::span<const std::byte> json,
                                          const std::string& file) {
  const Fields fields(json, file);
  fields.RequireValue("zarr_format", 3);
  if (fields.Get("node_type") == "group") return std::nullopt;
  fields.RequireValue("node_type", "array");
  ZarrMetadata metadata{.shape = fields.GetSizes("shape", 0)};
  const Json& type = fields.Get("data_type");
  if (const auto found = ElementTypeNamed(type.is_string() ? type.get<std::string>() : "")) {
    metadata.type = *found;
  } else {
    metadata.unreadable = fmt::format("data_type is {}; dp_bench reads numbers, such as float32",
                                      core::ShortDump(type));
  }
  RequireSteps(metadata.shape, &metadata);
  if (!metadata.unreadable.empty()) return metadata;
  const Json& grid = fields.Get("chunk_grid");
  if (CodecName(grid, "name") != "regular") {
    fields.Fail("chunk_grid", "is {}; expected a regular one.{}", core::ShortDump(grid),
                kHowToLeaveOut);
  }
  metadata.chunks =
      fields.ReadSizes("chunk_grid", MemberOf(MemberOf(grid, "configuration"), "chunk_shape"), 1);
  CodecReader(fields, &metadata).ReadAll(fields.Get("codecs"));
  CheckSizes(fields, &metadata);
  CheckImages(fields, metadata);
  ReadChunkKeys(fields, &metadata);
  fields.RequireEmpty("storage_transformers");
  metadata.fill = ParseFillValue(fields.Get("fill_value"), metadata.type);
  if (const Json* const attributes = fields.Find("attributes")) {
    ReadKeyAttributes(*attributes, &metadata);
  }
  return metadata;
}

void ReadKeyAttributes(const Json& attributes, ZarrMetadata* metadata) {
  const Json& type = MemberOf(attributes, kTypeAttribute);
  if (type.is_string()) metadata->key_type = type.get<std::string>();
  const Json& channels = MemberOf(attributes, kChannelsAttribute);
  if (channels.is_array() && std::ranges::all_of(channels, &Json::is_string)) {
    metadata->channels = channels.get<std::vector<std::string>>();
  }
}

std::string FormatZarrMetadata(const Shape& shape, const Shape& chunks, DType dtype) {
  const std::optional<ElementType> type = ElementTypeNamed(Name(dtype));
  DPB_ASSERT(type.has_value());
  const std::string name = fmt::format("{}{}", SizeOf(*type) == 1 ? '|' : '<', ShortName(*type));
  const Json compressor = {{"id", "blosc"},
                           {"cname", kBloscCodec},
                           {"clevel", kBloscLevel},
                           {"shuffle", kBloscByteShuffle},
                           {"blocksize", 0}};
  const Json metadata = {{"zarr_format", 2}, {"shape", shape},    {"chunks", chunks},
                         {"order", "C"},     {"dtype", name},     {"compressor", compressor},
                         {"fill_value", 0},  {"filters", nullptr}};
  return metadata.dump(4);
}

std::string ChunkFile(std::span<const std::int64_t> indices, char separator) {
  return fmt::format("{}", fmt::join(indices, std::string_view(&separator, 1)));
}

ZarrAttributes ParseZarrAttributes(std::string_view text, const std::string& file, bool is_node) {
  ZarrAttributes attributes;
  const Json picked = PickAttributes(text, file, is_node, &attributes.tasks);
  if (const auto fps = picked.find(kFpsAttribute); fps != picked.end()) {
    const double value = fps->is_number() ? fps->get<double>() : 0.0;
    if (!(value >= reader::kMinFps && value <= reader::kMaxFps)) {
      RefuseAttributes(
          file, fmt::format("fps is {}; expected a number from {} to {}",
                            fps->dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60),
                            reader::kMinFps, reader::kMaxFps));
    }
    attributes.fps = value;
  }
  if (const auto complete = picked.find(kCompleteAttribute); complete != picked.end()) {
    if (!complete->is_boolean()) RefuseAttributes(file, "complete is neither true nor false");
    attributes.is_growing = !complete->get<bool>();
  }
  return attributes;
}

ZarrAttributes ReadZarrAttributes(const Store& store, std::uint64_t max_bytes) {
  for (const char* file : {kAttributesFile, kNodeFile}) {
    if (!store.Peek(file, {})) continue;
    std::vector<std::byte> bytes;
    store.Read(file, max_bytes, &bytes);
    return ParseZarrAttributes({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                               store.Describe(file), file == kNodeFile);
  }
  return {};
}

}  // namespace dp_bench::zarr
