// Compressed chunks: raw, zlib (RFC 1950), zstd (RFC 8878) and c-blosc 1.x buffers are read; blosc
// is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/zarr/metadata.h"

namespace dp_bench::zarr {

/// The number of bytes of a chunk file that `CheckChunkHeader` needs.
inline constexpr std::size_t kChunkHeaderBytes = 18;

/// The largest file for a chunk of `chunk_bytes`; compressors add only little to incompressible
/// data.
std::uint64_t MaxFileBytes(std::int64_t chunk_bytes);

/// Checks that a file of `file_bytes` that begins with `header` can decode to exactly
/// `chunk_bytes`, before any memory is allocated for them. Throws Error{kData} naming `file` and
/// the offset of the fault.
void CheckChunkHeader(Compressor compressor, std::span<const std::byte> header,
                      std::uint64_t file_bytes, std::int64_t chunk_bytes, const std::string& file);

/// The memory that a decoder uses for a chunk with this header, in addition to input and output.
std::size_t DecoderBytes(Compressor compressor, std::span<const std::byte> header);

/// Decodes a whole file to exactly `out.size()` bytes; throws Error{kData} naming `file`.
void DecodeChunk(Compressor compressor, std::span<const std::byte> compressed,
                 std::span<std::byte> out, const std::string& file);

/// The bytes of a chunk as a writer stores it; equal chunks give equal bytes. May be called from
/// several threads at once.
std::vector<std::byte> EncodeChunk(DType dtype, std::span<const std::byte> chunk);

}  // namespace dp_bench::zarr
