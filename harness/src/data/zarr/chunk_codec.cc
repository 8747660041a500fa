#include "data/zarr/chunk_codec.h"

#include <blosc.h>
#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "core/crc32c.h"
#include "core/errors.h"
#include "media/decoded_image.h"

namespace dp_bench::zarr {
namespace {

// The most bytes that one compressed byte can become. deflate needs two bits for 258 bytes (1032
// per byte); zstd's run-length blocks turn 4 bytes into 128 kB.
constexpr std::uint64_t kMaxZlibRatio = 1040;
constexpr std::uint64_t kMaxZstdRatio = 1U << 16;

template <class... T>
[[noreturn]] void Fail(const std::string& file, fmt::format_string<T...> what, T&&... values) {
  throw DataError("{}: {}", file, fmt::format(what, std::forward<T>(values)...));
}

// The header of c-blosc (README_CHUNK_FORMAT.rst of c-blosc 1.21), little-endian, as this machine.
struct BloscHeader {
  std::uint8_t version;
  std::uint8_t version_of_codec;
  std::uint8_t flags;
  std::uint8_t typesize;
  std::uint32_t nbytes;  // decoded size
  std::uint32_t blocksize;
  std::uint32_t cbytes;  // compressed size, header included
};
static_assert(sizeof(BloscHeader) == BLOSC_MIN_HEADER_LENGTH);

BloscHeader ReadBloscHeader(std::span<const std::byte> bytes) {
  BloscHeader header = {};
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

void CheckBloscHeader(std::span<const std::byte> header, std::uint64_t file_bytes,
                      std::int64_t chunk_bytes, const std::string& file) {
  if (header.size() < BLOSC_MIN_HEADER_LENGTH) {
    Fail(file, "has {} bytes; a blosc header has {}", header.size(), BLOSC_MIN_HEADER_LENGTH);
  }
  const BloscHeader blosc = ReadBloscHeader(header);
  if (blosc.nbytes != static_cast<std::uint64_t>(chunk_bytes)) {
    Fail(file, "byte 4: the blosc header promises {} decoded bytes; the chunk has {}", blosc.nbytes,
         chunk_bytes);
  }
  if (blosc.cbytes != file_bytes) {
    Fail(file, "byte 12: the blosc header claims {} bytes; the file has {}", blosc.cbytes,
         file_bytes);
  }
  if (blosc.typesize == 0 || blosc.blocksize == 0 || blosc.blocksize > blosc.nbytes) {
    Fail(file, "byte 3: impossible type size {} or block size {}", blosc.typesize, blosc.blocksize);
  }
}

void CheckZstdHeader(std::span<const std::byte> header, std::int64_t chunk_bytes,
                     const std::string& file) {
  const unsigned long long promised = ZSTD_getFrameContentSize(header.data(), header.size());
  if (promised == ZSTD_CONTENTSIZE_ERROR) Fail(file, "byte 0: not a zstd frame");
  if (promised != ZSTD_CONTENTSIZE_UNKNOWN &&
      promised != static_cast<unsigned long long>(chunk_bytes)) {
    Fail(file, "byte 0: the zstd frame promises {} bytes; the chunk has {}", promised, chunk_bytes);
  }
}

void DecodeBlosc(std::span<const std::byte> compressed, std::span<std::byte> out,
                 const std::string& file) {
  std::size_t nbytes = 0;
  if (blosc_cbuffer_validate(compressed.data(), compressed.size(), &nbytes) != 0 ||
      nbytes != out.size()) {
    Fail(file, "byte 0: not a valid blosc buffer");
  }
  // chunks are decoded in parallel, so each gets one thread
  const int decoded = blosc_decompress_ctx(compressed.data(), out.data(), out.size(), 1);
  if (decoded < 0 || static_cast<std::size_t>(decoded) != out.size()) {
    Fail(file, "blosc stops with {} after its 16-byte header; expected {} bytes", decoded,
         out.size());
  }
}

void DecodeZstd(std::span<const std::byte> compressed, std::span<std::byte> out,
                const std::string& file) {
  const std::size_t decoded =
      ZSTD_decompress(out.data(), out.size(), compressed.data(), compressed.size());
  if (ZSTD_isError(decoded) != 0) Fail(file, "zstd: {}", ZSTD_getErrorName(decoded));
  if (decoded != out.size()) Fail(file, "zstd gave {} bytes; expected {}", decoded, out.size());
}

void DecodeZlib(std::span<const std::byte> compressed, std::span<std::byte> out,
                const std::string& file) {
  z_stream stream = {};
  constexpr int kZlibOrGzip = 32 + MAX_WBITS;
  if (inflateInit2(&stream, kZlibOrGzip) != Z_OK) throw InternalError("zlib does not start");
  // chunks and their files stay below 4 GB
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(compressed.data()));
  stream.avail_in = static_cast<uInt>(compressed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = inflate(&stream, Z_FINISH);
  const std::string reason = stream.msg != nullptr ? stream.msg : zError(result);
  const std::uint64_t n_in = stream.total_in;
  const std::uint64_t n_out = stream.total_out;
  inflateEnd(&stream);
  if (result != Z_STREAM_END || n_in != compressed.size() || n_out != out.size()) {
    Fail(file, "zlib stops at byte {} of {} with {} of {} decoded ({})", n_in, compressed.size(),
         n_out, out.size(), reason);
  }
}

}  // namespace

std::uint64_t MaxFileBytes(std::int64_t chunk_bytes) {
  const auto bytes = static_cast<std::uint64_t>(chunk_bytes);
  return bytes + bytes / 64 + 65536;
}

void CheckChunkHeader(Compressor compressor, std::span<const std::byte> header,
                      std::uint64_t file_bytes, std::int64_t chunk_bytes, const std::string& file) {
  const auto wanted = static_cast<std::uint64_t>(chunk_bytes);
  if (compressor == Compressor::kNone) {
    if (file_bytes == wanted) return;
    Fail(file, "has {} bytes; an uncompressed chunk has {}", file_bytes, wanted);
  }
  if (file_bytes > MaxFileBytes(chunk_bytes)) {
    Fail(file, "has {} bytes, more than a chunk of {} can need", file_bytes, wanted);
  }
  if (compressor == Compressor::kImage) return;  // one colour takes a few bytes at any size
  const std::uint64_t ratio = compressor == Compressor::kZlib ? kMaxZlibRatio : kMaxZstdRatio;
  if (wanted / ratio > file_bytes) {
    Fail(file, "has {} bytes, which cannot hold a chunk of {}", file_bytes, wanted);
  }
  if (compressor == Compressor::kBlosc) CheckBloscHeader(header, file_bytes, chunk_bytes, file);
  if (compressor == Compressor::kZstd) CheckZstdHeader(header, chunk_bytes, file);
}

std::size_t DecoderBytes(Compressor compressor, std::span<const std::byte> header,
                         std::int64_t chunk_bytes) {
  constexpr std::size_t kDecoderState = 256U << 10;  // of zlib 48 kB, of zstd 160 kB
  const auto decoded = static_cast<std::size_t>(chunk_bytes);
  switch (compressor) {
    case Compressor::kNone:
      return 0;
    case Compressor::kImage:  // JPEG XL works with floats, in several planes
      return (std::size_t{1} << 20) + 12 * decoded;
    case Compressor::kZlib:
    case Compressor::kZstd:
      return kDecoderState;
    case Compressor::kBlosc:
      break;
  }
  constexpr std::size_t kMaxTypeSize = 255;
  const bool is_any = header.size() < BLOSC_MIN_HEADER_LENGTH;
  const std::size_t block = is_any ? decoded : ReadBloscHeader(header).blocksize;
  const std::size_t type = is_any ? kMaxTypeSize : ReadBloscHeader(header).typesize;
  return kDecoderState + 3 * (block + 4 * type);
}

std::span<const std::byte> TakeChecksums(std::span<const std::byte> bytes, int n,
                                         const std::string& file) {
  for (; n > 0; --n) {
    std::uint32_t stored = 0;  // little-endian, as this machine
    if (bytes.size() < sizeof(stored)) Fail(file, "is too short for its checksum");
    const auto rest = bytes.first(bytes.size() - sizeof(stored));
    std::memcpy(&stored, bytes.data() + rest.size(), sizeof(stored));
    if (core::Crc32c({reinterpret_cast<const char*>(rest.data()), rest.size()}) != stored) {
      Fail(file, "the CRC-32C of {} bytes does not match: they are damaged", rest.size());
    }
    bytes = rest;
  }
  return bytes;
}

void DecodeChunk(Compressor compressor, std::span<const std::byte> compressed,
                 std::span<std::byte> out, const std::string& file) {
  // the file may have changed since its header was checked
  CheckChunkHeader(compressor, compressed.first(std::min(compressed.size(), kChunkHeaderBytes)),
                   compressed.size(), static_cast<std::int64_t>(out.size()), file);
  switch (compressor) {
    case Compressor::kNone:
      std::memcpy(out.data(), compressed.data(), out.size());
      return;
    case Compressor::kZlib:
      return DecodeZlib(compressed, out, file);
    case Compressor::kZstd:
      return DecodeZstd(compressed, out, file);
    case Compressor::kBlosc:
      return DecodeBlosc(compressed, out, file);
    case Compressor::kImage:
      break;
  }
  throw InternalError("an image has a decoder of its own");
}

void DecodeImage(std::span<const std::byte> compressed, const Shape& chunks,
                 std::span<std::byte> out, const std::string& file) {
  const std::int64_t height = chunks[chunks.size() - 3];
  const std::int64_t width = chunks[chunks.size() - 2];
  DPB_ASSERT(out.size() == static_cast<std::size_t>(3 * height * width));
  constexpr std::int64_t kMaxPixels = 1 << 16;  // in each direction
  if (std::max(height, width) > kMaxPixels) {
    Fail(file, "an image of {} x {} pixels is too large", width, height);
  }
  try {
    media::DecodeRgb(compressed, static_cast<int>(width), static_cast<int>(height), out);
  } catch (const Error& error) {
    Fail(file, "{}", error.what());
  }
}

std::vector<std::byte> EncodeChunk(DType dtype, std::span<const std::byte> chunk) {
  static_assert(kBloscByteShuffle == BLOSC_SHUFFLE);
  std::vector<std::byte> out(chunk.size() + BLOSC_MAX_OVERHEAD);
  // one thread, so that the blocks of the buffer, and therefore its bytes, depend only on the chunk
  const int size = blosc_compress_ctx(kBloscLevel, kBloscByteShuffle, SizeOf(dtype), chunk.size(),
                                      chunk.data(), out.data(), out.size(), kBloscCodec,
                                      /*blocksize=*/0, /*numinternalthreads=*/1);
  if (size <= 0) {
    throw InternalError("c-blosc did not compress {} bytes ({}); its zstd codec is missing?",
                        chunk.size(), size);
  }
  out.resize(static_cast<std::size_t>(size));
  return out;
}

}  // namespace dp_bench::zarr
