// One array of a zarr v2 folder that grows at its end. Equal rows give equal bytes, regardless of
// how they were appended and how often the array was reopened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/array.h"

namespace dp_bench::zarr {

struct ZarrLayout {
  DType dtype = DType::kFloat32;
  Shape row_shape;              // empty: a row is one number
  std::int64_t chunk_rows = 1;  // rows per chunk; the other axes are never divided

  std::size_t RowBytes() const;
};

/// The number of rows for a chunk of about 1 MiB; 1 for larger rows.
std::int64_t RowsPerChunk(std::size_t row_bytes);

/// On disk the array has the rows of the last `Flush`; chunks after them do not count yet. Every
/// fault throws Error{kIo} or Error{kData} naming the file.
class ZarrArrayWriter {
 public:
  /// Opens an array to continue after its first `n_rows` rows; everything after them is removed. 0
  /// makes a new array, whatever was there.
  ZarrArrayWriter(std::filesystem::path folder, ZarrLayout layout, std::int64_t n_rows);

  /// The number of rows according to <folder>/.zarray; 0 if there is no array.
  static std::int64_t RowsOnDisk(const std::filesystem::path& folder);

  std::int64_t n_rows() const { return n_rows_; }

  /// Appends whole rows. Full chunks are written immediately.
  void Append(std::span<const std::byte> rows);

  /// Appends a chunk made by `EncodeChunk`; only for arrays of one row per chunk. Not durable until
  /// the caller syncs the file system, because there may be thousands of these files.
  void AppendEncoded(std::span<const std::byte> chunk);

  /// Writes the chunk that is not full yet, then .zarray with the number of rows.
  void Flush();

  /// Reads a row that was flushed before.
  std::vector<std::byte> ReadRow(std::int64_t row) const;

 private:
  std::filesystem::path ChunkPath(std::int64_t chunk) const;
  std::string Metadata(std::int64_t n_rows) const;
  void RequireSameLayout() const;
  void RemoveChunksFrom(std::int64_t first) const;
  std::vector<std::byte> ReadChunk(std::int64_t chunk) const;

  std::filesystem::path folder_;
  ZarrLayout layout_;
  std::size_t row_bytes_;
  std::int64_t n_rows_;
  std::vector<std::byte> tail_;  // the chunk that is not full yet, zeros after its rows
};

}  // namespace dp_bench::zarr
