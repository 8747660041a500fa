#include "support/zarr_files.h"

#include <blosc.h>
#include <zip.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <fstream>

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
  metadata["compressor"] = layout.encoding.json;
  metadata["dimension_separator"] = std::string(1, layout.separator);
  files_[name + "/" + kArrayFile] = ToBytes(metadata.dump());

  const std::size_t n_axes = layout.shape.size();
  Shape indices(n_axes, 0);
  while (true) {
    files_[name + "/" + ChunkFile(indices, layout.separator)] =
        layout.encoding.encode(SizeOf(dtype), CutChunk(layout, indices, SizeOf(dtype), values));
    // the next chunk, last axis first
    std::size_t axis = n_axes;
    while (axis-- > 0) {
      if (++indices[axis] * layout.chunks[axis] < layout.shape[axis]) break;
      indices[axis] = 0;
    }
    if (axis == static_cast<std::size_t>(-1)) return;
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
