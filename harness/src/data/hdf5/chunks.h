// Chunks of arrays, decoded without libhdf5: its decoders trust the sizes in the file, take memory
// without a limit, and are not thread-safe. Filters:
// https://github.com/HDFGroup/hdf5_plugins/blob/master/docs/RegisteredFilterPlugins.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dp_bench/array.h"

namespace dp_bench::hdf5 {

struct ChunkFilter {
  int id = 0;                  // of libhdf5's registry
  std::size_t item_bytes = 0;  // of the shuffle
};

/// Whether UndoFilters knows it: deflate, shuffle, and lzf of h5py.
bool IsKnownFilter(int id);

/// Undoes the filters, the last one first; bit i of `left_out` means that filter i was not applied.
/// `what` names the array. Throws Error{kData} if the result does not have `n_bytes`.
std::vector<std::byte> UndoFilters(std::span<const ChunkFilter> filters, std::uint32_t left_out,
                                   std::vector<std::byte> stored, std::size_t n_bytes,
                                   std::string_view what);

/// The most bytes that a chunk of `n_bytes` can have in the file.
std::size_t MaxStoredBytes(std::size_t n_bytes);

struct ChunkGrid {
  /// The first element of every chunk that has rows of [begin, end).
  std::vector<Shape> Chunks(std::int64_t begin, std::int64_t end) const;

  /// Copies the part of a chunk that is in rows [begin, end) of the array to its place in `rows`.
  void Copy(const Shape& first, std::span<const std::byte> chunk, std::int64_t begin,
            std::int64_t end, std::span<std::byte> rows) const;

  std::size_t ChunkBytes() const;

  Shape shape;       // of the array
  Shape chunk;       // of a chunk
  std::size_t item;  // [bytes]
};

// Images as files in the rows of an array: JPEG or PNG, padded with zeros, as ALOHA has them.

/// Whether a row begins as an image file does.
bool IsImageFile(std::span<const std::byte> row);

/// The height and width of the image in a row [px]. Throws Error{kMedia} if it is none.
Shape SizeOfImage(std::span<const std::byte> row);

/// Writes [height, width, 3] bytes. Throws Error{kMedia} for another size, or a damaged image.
void DecodeImageFile(std::span<const std::byte> row, const Shape& size, std::span<std::byte> out);

}  // namespace dp_bench::hdf5
