#include "data/zarr_array_writer.h"

#include <blosc.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/atomic_file.h"
#include "core/json.h"
#include "core/system_error.h"
#include "dp_bench/error.h"

namespace dp_bench::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxMetadataBytes = std::size_t{1} << 20;
// higher levels gain a few percent and cost several times the time
constexpr int kCompressionLevel = 1;

std::string_view ZarrName(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return "|u1";
    case DType::kUInt16:
      return "<u2";
    case DType::kInt32:
      return "<i4";
    case DType::kInt64:
      return "<i8";
    case DType::kFloat32:
      return "<f4";
    case DType::kFloat64:
      return "<f8";
  }
  return "?";
}

}  // namespace

std::size_t ZarrLayout::RowBytes() const {
  return static_cast<std::size_t>(NumElements(row_shape)) * SizeOf(dtype);
}

std::int64_t RowsPerChunk(std::size_t row_bytes) {
  return static_cast<std::int64_t>(std::max<std::size_t>(1, kChunkBytes / row_bytes));
}

std::vector<std::byte> EncodeChunk(const ZarrLayout& layout, std::span<const std::byte> rows) {
  DPB_ASSERT(rows.size() == static_cast<std::size_t>(layout.chunk_rows) * layout.RowBytes());
  std::vector<std::byte> chunk(rows.size() + BLOSC_MAX_OVERHEAD);
  // one thread: the blocks of the buffer, and so its bytes, depend on nothing but the rows
  const int size = blosc_compress_ctx(kCompressionLevel, BLOSC_SHUFFLE, SizeOf(layout.dtype),
                                      rows.size(), rows.data(), chunk.data(), chunk.size(), "zstd",
                                      /*blocksize=*/0, /*numinternalthreads=*/1);
  if (size <= 0) {
    throw Error(ErrorCode::kInternal,
                fmt::format("c-blosc did not compress {} bytes ({}); its zstd codec is missing?",
                            rows.size(), size));
  }
  chunk.resize(static_cast<std::size_t>(size));
  return chunk;
}

ZarrArrayWriter::ZarrArrayWriter(fs::path folder, ZarrLayout layout, std::int64_t n_rows)
    : folder_(std::move(folder)),
      layout_(std::move(layout)),
      row_bytes_(layout_.RowBytes()),
      n_rows_(n_rows) {
  if (n_rows == 0) core::RemoveAll(folder_);
  core::CreateFolders(folder_);

  const std::int64_t n_full = n_rows / layout_.chunk_rows;
  const std::int64_t n_left = n_rows % layout_.chunk_rows;
  if (n_rows > 0) {
    RequireSameLayout();
    RemoveChunksFrom(n_full + (n_left > 0 ? 1 : 0));
  }
  tail_.resize(static_cast<std::size_t>(layout_.chunk_rows) * row_bytes_);
  if (n_left == 0) return;
  // rows of an append that was never flushed may stand behind the others
  const std::vector<std::byte> chunk = ReadChunk(n_full);
  std::copy_n(chunk.begin(), static_cast<std::size_t>(n_left) * row_bytes_, tail_.begin());
}

std::int64_t ZarrArrayWriter::RowsOnDisk(const fs::path& folder) {
  const fs::path file = folder / ".zarray";
  if (!fs::exists(file)) return 0;
  const json metadata = core::TryParseJson(core::ReadTextFile(file, kMaxMetadataBytes));
  const json* shape =
      metadata.is_object() && metadata.contains("shape") ? &metadata["shape"] : nullptr;
  if (shape == nullptr || !shape->is_array() || shape->empty() ||
      !(*shape)[0].is_number_unsigned()) {
    throw Error(ErrorCode::kData, fmt::format("{} does not tell a number of rows", file.string()));
  }
  return (*shape)[0].get<std::int64_t>();
}

fs::path ZarrArrayWriter::ChunkPath(std::int64_t chunk) const {
  std::string name = std::to_string(chunk);
  for (std::size_t i = 0; i < layout_.row_shape.size(); ++i) name += ".0";
  return folder_ / name;
}

// In the form that Python's zarr gives it.
std::string ZarrArrayWriter::Metadata(std::int64_t n_rows) const {
  json shape = json::array({n_rows});
  json chunks = json::array({layout_.chunk_rows});
  for (const std::int64_t size : layout_.row_shape) {
    shape.push_back(size);
    chunks.push_back(size);
  }
  const json compressor = {{"id", "blosc"},
                           {"cname", "zstd"},
                           {"clevel", kCompressionLevel},
                           {"shuffle", BLOSC_SHUFFLE},
                           {"blocksize", 0}};
  const json metadata = {{"zarr_format", 2},
                         {"shape", shape},
                         {"chunks", chunks},
                         {"order", "C"},
                         {"dtype", std::string(ZarrName(layout_.dtype))},
                         {"compressor", compressor},
                         {"fill_value", 0},
                         {"filters", nullptr}};
  return metadata.dump(4);
}

void ZarrArrayWriter::RequireSameLayout() const {
  const fs::path file = folder_ / ".zarray";
  const std::int64_t n_found = RowsOnDisk(folder_);
  if (n_found >= n_rows_ && core::ReadTextFile(file, kMaxMetadataBytes) == Metadata(n_found))
    return;
  throw Error(ErrorCode::kData,
              fmt::format("cannot continue at row {} of {}: its .zarray was written by another "
                          "version or program; wanted\n{}",
                          n_rows_, folder_.string(), Metadata(n_rows_)));
}

void ZarrArrayWriter::RemoveChunksFrom(std::int64_t first) const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    std::int64_t chunk = -1;  // the name begins with its number
    std::from_chars(name.data(), name.data() + name.size(), chunk);
    if (chunk >= first) fs::remove(entry.path(), error);
    if (error) core::ThrowSystemError("remove", entry.path(), error);
  }
}

std::vector<std::byte> ZarrArrayWriter::ReadChunk(std::int64_t chunk) const {
  const fs::path file = ChunkPath(chunk);
  std::vector<std::byte> rows(static_cast<std::size_t>(layout_.chunk_rows) * row_bytes_);
  const std::vector<std::byte> encoded = core::ReadFile(file, rows.size() + BLOSC_MAX_OVERHEAD);
  std::size_t size = 0;
  if (blosc_cbuffer_validate(encoded.data(), encoded.size(), &size) != 0 || size != rows.size() ||
      blosc_decompress_ctx(encoded.data(), rows.data(), rows.size(), 1) !=
          static_cast<int>(rows.size())) {
    throw Error(ErrorCode::kData, fmt::format("{} is damaged: it does not decode to {} bytes",
                                              file.string(), rows.size()));
  }
  return rows;
}

void ZarrArrayWriter::Append(std::span<const std::byte> rows) {
  DPB_ASSERT(rows.size() % row_bytes_ == 0);
  while (!rows.empty()) {
    const std::size_t used = static_cast<std::size_t>(n_rows_ % layout_.chunk_rows) * row_bytes_;
    const std::size_t size = std::min(rows.size(), tail_.size() - used);
    std::copy_n(rows.begin(), size, tail_.begin() + static_cast<std::ptrdiff_t>(used));
    rows = rows.subspan(size);
    n_rows_ += static_cast<std::int64_t>(size / row_bytes_);
    if (used + size < tail_.size()) return;
    // atomically, because an earlier form of this chunk may be in use
    core::WriteFileAtomically(ChunkPath(n_rows_ / layout_.chunk_rows - 1),
                              EncodeChunk(layout_, tail_));
    std::ranges::fill(tail_, std::byte{0});
  }
}

void ZarrArrayWriter::AppendEncoded(std::span<const std::byte> chunk) {
  DPB_ASSERT(layout_.chunk_rows == 1);
  core::WriteNewFile(ChunkPath(n_rows_), chunk);
  ++n_rows_;
}

void ZarrArrayWriter::Flush() {
  if (n_rows_ % layout_.chunk_rows != 0) {
    core::WriteFileAtomically(ChunkPath(n_rows_ / layout_.chunk_rows), EncodeChunk(layout_, tail_));
  }
  core::WriteFileAtomically(folder_ / ".zarray", Metadata(n_rows_));
}

std::vector<std::byte> ZarrArrayWriter::ReadRow(std::int64_t row) const {
  const std::vector<std::byte> chunk = ReadChunk(row / layout_.chunk_rows);
  const auto begin =
      chunk.begin() +
      static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row % layout_.chunk_rows) * row_bytes_);
  return {begin, begin + static_cast<std::ptrdiff_t>(row_bytes_)};
}

}  // namespace dp_bench::data
