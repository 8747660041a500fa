// The .zarray file of a zarr v2 array (Zarr storage specification version 2), for little-endian
// numbers in C order without filters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dp_bench/array.h"

namespace dp_bench::zarr {

enum class Compressor { kNone, kZlib, kZstd, kBlosc };

/// Checked: 1 to 8 axes, positive chunk sizes, sizes and products that fit, chunks below 2 GB.
struct ZarrMetadata {
  Shape shape;
  Shape chunks;
  DType dtype = DType::kFloat32;
  Compressor compressor = Compressor::kNone;
  char separator = '.';  // between the indices in the name of a chunk

  std::int64_t chunk_bytes = 0;  // decoded size of every chunk, including those at the edge
  std::int64_t num_chunks = 0;
  std::int64_t num_elements = 0;
};

inline constexpr const char* kArrayFile = ".zarray";
inline constexpr std::uint64_t kMaxMetadataBytes = 256U << 10;

/// How chunks are written: c-blosc with this codec after a byte shuffle. Higher levels save a few
/// percent and take several times as long.
inline constexpr const char* kBloscCodec = "zstd";
inline constexpr int kBloscLevel = 1;
inline constexpr int kBloscByteShuffle = 1;

/// `file` names the text in messages. Throws Error{kData}.
ZarrMetadata ParseZarrMetadata(std::span<const std::byte> json, const std::string& file);

/// The .zarray of an array whose chunks `EncodeChunk` makes, as Python's zarr would write it.
std::string FormatZarrMetadata(const Shape& shape, const Shape& chunks, DType dtype);

/// The file of a chunk in the folder of its array, such as "3.0.0".
std::string ChunkFile(std::span<const std::int64_t> indices, char separator = '.');

}  // namespace dp_bench::zarr
