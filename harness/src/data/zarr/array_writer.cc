#include "data/zarr/array_writer.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/system_error.h"
#include "data/zarr/chunk_codec.h"
#include "data/zarr/metadata.h"

namespace dp_bench::zarr {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

}  // namespace

std::size_t ZarrLayout::RowBytes() const {
  return static_cast<std::size_t>(NumElements(row_shape)) * SizeOf(dtype);
}

std::int64_t RowsPerChunk(std::size_t row_bytes) {
  return static_cast<std::int64_t>(std::max<std::size_t>(1, kChunkBytes / row_bytes));
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
  // rows of an append that was never flushed may follow the others
  const std::vector<std::byte> chunk = ReadChunk(n_full);
  std::copy_n(chunk.begin(), static_cast<std::size_t>(n_left) * row_bytes_, tail_.begin());
}

std::int64_t ZarrArrayWriter::RowsOnDisk(const fs::path& folder) {
  const fs::path file = folder / kArrayFile;
  if (!fs::exists(file)) return 0;
  return ParseZarrMetadata(core::ReadFile(file, kMaxMetadataBytes), file.string()).shape[0];
}

fs::path ZarrArrayWriter::ChunkPath(std::int64_t chunk) const {
  Shape indices(layout_.row_shape.size() + 1, 0);
  indices[0] = chunk;
  return folder_ / ChunkFile(indices);
}

std::string ZarrArrayWriter::Metadata(std::int64_t n_rows) const {
  Shape shape = {n_rows};
  Shape chunks = {layout_.chunk_rows};
  shape.insert(shape.end(), layout_.row_shape.begin(), layout_.row_shape.end());
  chunks.insert(chunks.end(), layout_.row_shape.begin(), layout_.row_shape.end());
  return FormatZarrMetadata(shape, chunks, layout_.dtype);
}

void ZarrArrayWriter::RequireSameLayout() const {
  const fs::path file = folder_ / kArrayFile;
  const std::int64_t n_found = RowsOnDisk(folder_);
  if (n_found >= n_rows_ && core::ReadTextFile(file, kMaxMetadataBytes) == Metadata(n_found))
    return;
  throw DataError(
      "cannot continue at row {} of {}: its .zarray was written by another version or program; "
      "expected\n{}",
      n_rows_, folder_.string(), Metadata(n_rows_));
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
  const auto max_bytes = MaxFileBytes(static_cast<std::int64_t>(rows.size()));
  DecodeChunk(Compressor::kBlosc, core::ReadFile(file, max_bytes), rows, file.string());
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
    // atomically, because an earlier version of this chunk may be in use
    core::WriteFileAtomically(ChunkPath(n_rows_ / layout_.chunk_rows - 1),
                              EncodeChunk(layout_.dtype, tail_));
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
    core::WriteFileAtomically(ChunkPath(n_rows_ / layout_.chunk_rows),
                              EncodeChunk(layout_.dtype, tail_));
  }
  core::WriteFileAtomically(folder_ / kArrayFile, Metadata(n_rows_));
}

std::vector<std::byte> ZarrArrayWriter::ReadRow(std::int64_t row) const {
  const std::vector<std::byte> chunk = ReadChunk(row / layout_.chunk_rows);
  const auto begin =
      chunk.begin() +
      static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row % layout_.chunk_rows) * row_bytes_);
  return {begin, begin + static_cast<std::ptrdiff_t>(row_bytes_)};
}

}  // namespace dp_bench::zarr
