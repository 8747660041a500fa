#include "data/hdf5/chunks.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/errors.h"
#include "data/reader/chunk_grid.h"
#include "media/decoded_image.h"

namespace dp_bench::hdf5 {
namespace {

constexpr int kDeflate = 1;
constexpr int kShuffle = 2;
constexpr int kLzf = 32000;

bool Inflate(std::span<const std::byte> in, std::span<std::byte> out) {
  uLongf n_out = out.size();
  const int result =
      ::uncompress(reinterpret_cast<Bytef*>(out.data()), &n_out,
                   reinterpret_cast<const Bytef*>(in.data()), static_cast<uLong>(in.size()));
  return result == Z_OK && n_out == out.size();
}

// The format of liblzf: a literal of n + 1 bytes, or a copy from what was decoded before.
bool DecodeLzf(std::span<const std::byte> in, std::span<std::byte> out) {
  std::size_t at = 0;
  std::size_t done = 0;
  const auto next = [&] { return std::to_integer<std::size_t>(in[at++]); };
  while (at < in.size()) {
    const std::size_t control = next();
    std::size_t n = control >> 5;
    if (n == 0) {
      n = control + 1;
      if (n > in.size() - at || n > out.size() - done) return false;
      std::memcpy(out.data() + done, in.data() + at, n);
      at += n;
      done += n;
      continue;
    }
    if (n == 7 && at < in.size()) n += next();
    if (at == in.size()) return false;
    const std::size_t back = ((control & 0x1fU) << 8) + next() + 1;
    n += 2;
    if (back > done || n > out.size() - done) return false;
    for (const std::size_t end = done + n; done < end; ++done) out[done] = out[done - back];
  }
  return done == out.size();
}

// Byte i of all items is together.
void Unshuffle(std::size_t item, std::span<const std::byte> in, std::span<std::byte> out) {
  const std::size_t n = in.size() / item;
  for (std::size_t byte = 0; byte < item; ++byte) {
    for (std::size_t i = 0; i < n; ++i) out[i * item + byte] = in[byte * n + i];
  }
  std::copy(in.begin() + static_cast<std::ptrdiff_t>(n * item), in.end(),
            out.begin() + static_cast<std::ptrdiff_t>(n * item));
}

// A JPEG file ends with 0xd9, a PNG file with 0x82.
std::span<const std::byte> WithoutPadding(std::span<const std::byte> row) {
  while (!row.empty() && row.back() == std::byte{0}) row = row.first(row.size() - 1);
  return row;
}

}  // namespace

bool IsKnownFilter(int id) { return id == kDeflate || id == kShuffle || id == kLzf; }

std::size_t MaxStoredBytes(std::size_t n_bytes) { return n_bytes + n_bytes / 16 + 65536; }

std::vector<std::byte> UndoFilters(std::span<const ChunkFilter> filters, std::uint32_t left_out,
                                   std::vector<std::byte> stored, std::size_t n_bytes,
                                   std::string_view what) {
  for (std::size_t i = filters.size(); i-- > 0;) {
    if ((left_out >> i & 1U) != 0) continue;
    const ChunkFilter& filter = filters[i];
    if (filter.id == kShuffle && (filter.item_bytes <= 1 || stored.size() != n_bytes)) continue;
    std::vector<std::byte> out(n_bytes);
    bool is_decoded = true;
    if (filter.id == kShuffle) {
      Unshuffle(filter.item_bytes, stored, out);
    } else {
      is_decoded = filter.id == kLzf ? DecodeLzf(stored, out) : Inflate(stored, out);
    }
    if (!is_decoded) {
      throw DataError(
          "{}: a chunk of {} bytes does not become the {} bytes that it should; the file is "
          "damaged",
          what, stored.size(), n_bytes);
    }
    stored = std::move(out);
  }
  if (stored.size() == n_bytes) return stored;
  throw DataError("{}: expected a chunk of {} bytes, found {}; the file is damaged", what, n_bytes,
                  stored.size());
}

std::size_t ChunkGrid::ChunkBytes() const {
  return static_cast<std::size_t>(NumElements(chunk)) * item;
}

std::vector<Shape> ChunkGrid::Chunks(std::int64_t begin, std::int64_t end) const {
  std::vector<Shape> all;
  Shape at(shape.size(), 0);
  at[0] = begin / chunk[0] * chunk[0];
  while (at[0] < end) {
    all.push_back(at);
    std::size_t axis = shape.size() - 1;
    for (at[axis] += chunk[axis]; axis > 0 && at[axis] >= shape[axis]; at[axis] += chunk[axis]) {
      at[axis--] = 0;
    }
  }
  return all;
}

void ChunkGrid::Copy(const Shape& first, std::span<const std::byte> bytes, std::int64_t begin,
                     std::int64_t end, std::span<std::byte> rows) const {
  DPB_ASSERT(bytes.size() == ChunkBytes());
  reader::ForEachRun(shape, chunk, first, begin, end, [&](const reader::ChunkRun& run) {
    std::memcpy(rows.data() + static_cast<std::size_t>(run.to) * item,
                bytes.data() + static_cast<std::size_t>(run.from) * item,
                static_cast<std::size_t>(run.n) * item);
  });
}

bool IsImageFile(std::span<const std::byte> row) {
  const std::string_view text(reinterpret_cast<const char*>(row.data()), row.size());
  return text.starts_with("\xff\xd8\xff") || text.starts_with("\x89PNG\r\n\x1a\n");
}

Shape SizeOfImage(std::span<const std::byte> row) {
  media::ImageDecoder decoder;
  const media::DecodedImage& image = decoder.Decode(WithoutPadding(row), 0, 0);
  return {image.height(), image.width()};
}

void DecodeImageFile(std::span<const std::byte> row, const Shape& size, std::span<std::byte> out) {
  media::DecodeRgb(WithoutPadding(row), static_cast<int>(size[1]), static_cast<int>(size[0]), out);
}

}  // namespace dp_bench::hdf5
