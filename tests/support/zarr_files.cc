#include "support/zarr_files.h"

#include <blosc.h>
#include <zip.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <fstream>

#include "core/crc32c.h"
#include "data/zarr/metadata.h"
#include "dp_bench/error.h"

namespace dp_bench::zarr {
namespace {

// Element by element, so that it shares no code or idea with the reader. Returns the chunk at these
// indices, with zeros beyond the array.
Bytes CutChunk(const ArrayLayout& layout, const Shape& indices, std::size_t item,
               std::span<const std::byte> values) {
  const std::size_t n_axes = layout.shape.size();
  Bytes chunk(static_cast<std::size_t>(NumElements(layout.chunks)) * item);
  Shape at(n_axes, 0);
  for (std::size_t i = 0; i * item < chunk.size(); ++i) {
    std::int64_t source = 0;
    bool is_inside = true;
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t axis = n_axes; axis-- > 0;) {
      at[axis] = indices[axis] * layout.chunks[axis] + rest % layout.chunks[axis];
      rest /= layout.chunks[axis];
      is_inside = is_inside && at[axis] < layout.shape[axis];
    }
    for (std::size_t axis = 0; axis < n_axes; ++axis)
      source = source * layout.shape[axis] + at[axis];
    if (!is_inside) continue;
    std::memcpy(chunk.data() + i * item, values.data() + static_cast<std::size_t>(source) * item,
                item);
  }
  return chunk;
}

// Element by element, as CutChunk.
Bytes Permute(const ArrayLayout& layout, std::size_t item, const Bytes& chunk) {
  Bytes out(chunk.size());
  for (std::size_t i = 0; i * item < chunk.size(); ++i) {
    Shape at(layout.order.size());
    auto rest = static_cast<std::int64_t>(i);  // in the stored chunk
    for (std::size_t axis = at.size(); axis-- > 0;) {
      const auto own = static_cast<std::size_t>(layout.order[axis]);
      at[own] = rest % layout.chunks[own];
      rest /= layout.chunks[own];
    }
    std::int64_t from = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      from = from * layout.chunks[axis] + at[axis];
    }
    std::memcpy(out.data() + i * item, chunk.data() + static_cast<std::size_t>(from) * item, item);
  }
  return out;
}

void AppendChecksum(Bytes* bytes) {
  const std::uint32_t crc =
      core::Crc32c({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  const auto sum = std::as_bytes(std::span(&crc, 1));
  bytes->insert(bytes->end(), sum.begin(), sum.end());
}

Bytes EncodeStored(const ArrayLayout& layout, std::size_t item, Bytes chunk) {
  if (!layout.order.empty()) chunk = Permute(layout, item, chunk);
  if (layout.is_big_endian) {
    for (std::size_t i = 0; i < chunk.size(); i += item) {
      std::ranges::reverse(std::span(chunk).subspan(i, item));
    }
  }
  Bytes encoded = layout.encoding.encode(item, chunk);
  if (layout.has_checksums) AppendChecksum(&encoded);
  return encoded;
}

nlohmann::json NodeOf(const ArrayLayout& layout, DType dtype) {
  using nlohmann::json;
  json codecs = json::array();
  const json bytes = {{"name", "bytes"},
                      {"configuration", {{"endian", layout.is_big_endian ? "big" : "little"}}}};
  if (!layout.order.empty()) {
    codecs.push_back({{"name", "transpose"}, {"configuration", {{"order", layout.order}}}});
  }
  codecs.push_back(bytes);
  if (!layout.encoding.json.is_null()) {
    const std::string id = layout.encoding.json.at("id");
    codecs.push_back({{"name", id == "zlib" ? "numcodecs.zlib" : id}});
  }
  if (layout.has_checksums) codecs.push_back({{"name", "crc32c"}});
  if (!layout.shards.empty()) {
    json index = {{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}};
    if (layout.has_checksums) index.push_back({{"name", "crc32c"}});
    codecs = {{{"name", "sharding_indexed"},
               {"configuration",
                {{"chunk_shape", layout.chunks},
                 {"codecs", codecs},
                 {"index_codecs", index},
                 {"index_location", layout.is_index_first ? "start" : "end"}}}}};
  }
  const Shape& grid = layout.shards.empty() ? layout.chunks : layout.shards;
  return {{"zarr_format", 3},
          {"node_type", "array"},
          {"shape", layout.shape},
          {"data_type", Name(dtype)},
          {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", grid}}}}},
          {"chunk_key_encoding", {{"name", "default"}}},
          {"fill_value", layout.fill_value},
          {"codecs", codecs},
          {"attributes", json::object()}};
}

}  // namespace

Bytes ToBytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void WriteFile(const std::filesystem::path& file, const Bytes& bytes) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  DPB_ASSERT(out.good());
}

Encoding Raw() {
  return {.encode = [](std::size_t, std::span<const std::byte> chunk) {
    return Bytes(chunk.begin(), chunk.end());
  }};
}

Encoding Zlib(int level) {
  return {.json = {{"id", "zlib"}, {"level", level}},
          .encode = [level](std::size_t, std::span<const std::byte> chunk) {
            uLongf size = compressBound(static_cast<uLong>(chunk.size()));
            Bytes out(size);
            DPB_ASSERT(compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                                 reinterpret_cast<const Bytef*>(chunk.data()),
                                 static_cast<uLong>(chunk.size()), level) == Z_OK);
            out.resize(size);
            return out;
          }};
}

Encoding Zstd(bool with_content_size) {
  return {.json = {{"id", "zstd"}, {"level", 1}},
          .encode = [with_content_size](std::size_t, std::span<const std::byte> chunk) {
            Bytes out(ZSTD_compressBound(chunk.size()));
            ZSTD_CCtx* context = ZSTD_createCCtx();
            ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, with_content_size ? 1 : 0);
            const std::size_t size =
                ZSTD_compress2(context, out.data(), out.size(), chunk.data(), chunk.size());
            ZSTD_freeCCtx(context);
            DPB_ASSERT(ZSTD_isError(size) == 0);
            out.resize(size);
            return out;
          }};
}

Encoding Blosc(const std::string& codec, int shuffle, int level) {
  return {.json = {{"id", "blosc"}, {"cname", codec}, {"clevel", level}, {"shuffle", shuffle}},
          .encode = [=](std::size_t item, std::span<const std::byte> chunk) {
            Bytes out(chunk.size() + BLOSC_MAX_OVERHEAD);
            const int size = blosc_compress_ctx(level, shuffle, item, chunk.size(), chunk.data(),
                                                out.data(), out.size(), codec.c_str(), 0, 1);
            DPB_ASSERT(size > 0);
            out.resize(static_cast<std::size_t>(size));
            return out;
          }};
}

void ZarrFiles::Replace(const std::string& name, std::string_view from, std::string_view to) {
  Bytes& file = files_.at(name);
  std::string text(reinterpret_cast<const char*>(file.data()), file.size());
  std::size_t at = text.find(from);
  DPB_ASSERT(at != std::string::npos);
  while (at != std::string::npos) {
    text.replace(at, from.size(), to);
    at = text.find(from, at + to.size());
  }
  file = ToBytes(text);
}

void ZarrFiles::AddArray(const std::string& name, const ArrayLayout& layout, DType dtype,
                         std::span<const std::byte> values) {
  DPB_ASSERT(values.size() == static_cast<std::size_t>(NumElements(layout.shape)) * SizeOf(dtype));
  auto metadata = nlohmann::json::parse(FormatZarrMetadata(layout.shape, layout.chunks, dtype));
  if (layout.is_big_endian)
    metadata["dtype"] = ">" + metadata["dtype"].get<std::string>().substr(1);
  if (!layout.order.empty()) metadata["order"] = "F";
  metadata["fill_value"] = layout.fill_value;
  metadata["compressor"] = layout.encoding.json;
  metadata["dimension_separator"] = std::string(1, layout.separator);
  if (layout.is_version_3) {
    files_[name + "/" + kNodeFile] = ToBytes(NodeOf(layout, dtype).dump());
  } else {
    files_[name + "/" + kArrayFile] = ToBytes(metadata.dump());
  }

  const std::size_t item = SizeOf(dtype);
  std::map<Shape, Bytes> chunks;
  const std::size_t n_axes = layout.shape.size();
  Shape indices(n_axes, 0);
  while (true) {
    const Bytes chunk = CutChunk(layout, indices, item, values);
    Bytes empty(chunk.size());
    for (std::size_t i = 0; layout.left_out && i < chunk.size(); i += item) {
      DPB_ASSERT(dtype == DType::kFloat32 || dtype == DType::kUInt8);
      const auto number = static_cast<float>(*layout.left_out);
      const auto byte = static_cast<std::uint8_t>(*layout.left_out);
      std::memcpy(empty.data() + i,
                  dtype == DType::kUInt8 ? static_cast<const void*>(&byte) : &number, item);
    }
    if (!layout.left_out || chunk != empty) chunks[indices] = EncodeStored(layout, item, chunk);
    // the next chunk, last axis first
    std::size_t axis = n_axes;
    while (axis-- > 0) {
      if (++indices[axis] * layout.chunks[axis] < layout.shape[axis]) break;
      indices[axis] = 0;
    }
    if (axis == static_cast<std::size_t>(-1)) break;
  }
  if (!layout.shards.empty()) return AddShards(name, layout, chunks);
  for (const auto& [at, bytes] : chunks) {
    files_[name + "/" +
           (layout.is_version_3 ? "c/" + ChunkFile(at, '/') : ChunkFile(at, layout.separator))] =
        bytes;
  }
}

void ZarrFiles::AddShards(const std::string& name, const ArrayLayout& layout,
                          const std::map<Shape, Bytes>& chunks) {
  std::int64_t n = 1;  // chunks of a shard
  for (std::size_t i = 0; i < layout.shards.size(); ++i) n *= layout.shards[i] / layout.chunks[i];
  const std::size_t index_bytes = static_cast<std::size_t>(16 * n) + (layout.has_checksums ? 4 : 0);
  struct Shard {
    Bytes content;
    std::vector<std::uint64_t> index;
  };
  std::map<Shape, Shard> shards;
  for (const auto& [at, bytes] : chunks) {
    Shape file = at;
    std::int64_t inside = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const std::int64_t per_shard = layout.shards[i] / layout.chunks[i];
      file[i] = at[i] / per_shard;
      inside = inside * per_shard + at[i] % per_shard;
    }
    Shard& shard = shards[file];
    shard.index.resize(static_cast<std::size_t>(2 * n), ~std::uint64_t{0});
    shard.index[static_cast<std::size_t>(2 * inside)] =
        shard.content.size() + (layout.is_index_first ? index_bytes : 0);
    shard.index[static_cast<std::size_t>(2 * inside + 1)] = bytes.size();
    shard.content.insert(shard.content.end(), bytes.begin(), bytes.end());
  }
  for (const auto& [file, shard] : shards) {
    const auto numbers = std::as_bytes(std::span(shard.index));
    Bytes index(numbers.begin(), numbers.end());
    if (layout.has_checksums) AppendChecksum(&index);
    Bytes& bytes = files_[name + "/c/" + ChunkFile(file, '/')];
    bytes = layout.is_index_first ? index : shard.content;
    const Bytes& rest = layout.is_index_first ? shard.content : index;
    bytes.insert(bytes.end(), rest.begin(), rest.end());
  }
}

void ZarrFiles::WriteFolder(const std::filesystem::path& folder) const {
  for (const auto& [name, bytes] : files_) {
    const std::filesystem::path file = folder / name;
    std::filesystem::create_directories(file.parent_path());
    WriteFile(file, bytes);
  }
}

void ZarrFiles::WriteZip(const std::filesystem::path& file, bool deflate) const {
  zip_t* archive = zip_open(file.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  DPB_ASSERT(archive != nullptr);
  for (const auto& [name, bytes] : files_) {
    zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    DPB_ASSERT(index >= 0);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index),
                             deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  }
  DPB_ASSERT(zip_close(archive) == 0);
}

}  // namespace dp_bench::zarr
