// Compressed chunks: raw, zlib (RFC 1950), gzip (RFC 1952), zstd (RFC 8878), c-blosc 1.x buffers
// and image files are read; blosc is written.
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

/// The memory that a decoder uses for a chunk with this header, in addition to input and output. An
/// empty header stands for any.
std::size_t DecoderBytes(Compressor compressor, std::span<const std::byte> header,
                         std::int64_t chunk_bytes);

/// Takes `n` checksums off the end of a chunk or an index. Throws Error{kData} naming `file` if one
/// does not match.
std::span<const std::byte> TakeChecksums(std::span<const std::byte> bytes, int n,
                                         const std::string& file);

/// Decodes a whole file, no image, to exactly `out.size()` bytes; throws Error{kData} naming
/// `file`.
void DecodeChunk(Compressor compressor, std::span<const std::byte> compressed,
                 std::span<std::byte> out, const std::string& file);

/// Decodes an image file to [height, width, 3] bytes, the last sizes of `chunks`. Throws
/// Error{kData} naming `file`.
void DecodeImage(std::span<const std::byte> compressed, const Shape& chunks,
                 std::span<std::byte> out, const std::string& file);

/// The bytes of a chunk as a writer stores it; equal chunks give equal bytes. May be called from
/// several threads at once.
std::vector<std::byte> EncodeChunk(DType dtype, std::span<const std::byte> chunk);

}  // namespace dp_bench::zarr
