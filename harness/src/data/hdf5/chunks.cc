#include "data/hdf5/chunks.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "dp_bench/error.h"

namespace dp_bench::hdf5 {
namespace {

constexpr int kDeflate = 1;
constexpr int kShuffle = 2;
constexpr int kLzf = 32000;
constexpr std::size_t kMaxAxes = 8;

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

// Where the rows of a chunk are, axis by axis.
struct BlockCopy {
  std::array<std::size_t, kMaxAxes> count = {};
  std::array<std::size_t, kMaxAxes> from_stride = {};  // [bytes]
  std::array<std::size_t, kMaxAxes> to_stride = {};
  std::size_t run_axis = 0;  // from here on, the bytes follow one another in both
  std::size_t run_bytes = 0;

  void Run(std::size_t axis, const std::byte* from, std::byte* to) const {
    if (axis == run_axis) {
      std::memcpy(to, from, run_bytes);
      return;
    }
    for (std::size_t i = 0; i < count[axis]; ++i) {
      Run(axis + 1, from + i * from_stride[axis], to + i * to_stride[axis]);
    }
  }
};

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
      throw Error(
          ErrorCode::kData,
          fmt::format("{}: a chunk of {} bytes does not become the {} bytes that it should; "
                      "the file is damaged",
                      what, stored.size(), n_bytes));
    }
    stored = std::move(out);
  }
  if (stored.size() == n_bytes) return stored;
  throw Error(ErrorCode::kData, fmt::format("{}: expected a chunk of {} bytes, found {}; the file "
                                            "is damaged",
                                            what, n_bytes, stored.size()));
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
  BlockCopy block;
  std::size_t from_stride = item;
  std::size_t to_stride = item;
  std::size_t from = 0;
  std::size_t to = 0;
  bool is_run = true;
  block.run_bytes = item;
  block.run_axis = shape.size();
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const std::int64_t low = axis == 0 ? std::max(begin, first[0]) : first[axis];
    const std::int64_t high = std::min(axis == 0 ? end : shape[axis], first[axis] + chunk[axis]);
    block.count[axis] = static_cast<std::size_t>(high - low);
    block.from_stride[axis] = from_stride;
    block.to_stride[axis] = to_stride;
    from += static_cast<std::size_t>(low - first[axis]) * from_stride;
    to += static_cast<std::size_t>(axis == 0 ? low - begin : low) * to_stride;
    if (is_run) {
      block.run_bytes *= block.count[axis];
      block.run_axis = axis;
    }
    is_run = is_run && low == 0 && high == shape[axis] && chunk[axis] == shape[axis];
    from_stride *= static_cast<std::size_t>(chunk[axis]);
    to_stride *= static_cast<std::size_t>(shape[axis]);
  }
  DPB_ASSERT(bytes.size() == ChunkBytes() && rows.size() >= to);
  block.Run(0, bytes.data() + from, rows.data() + to);
}

}  // namespace dp_bench::hdf5
