// See packing_kernels.h.
#include "policy/kernels/packing_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "policy/kernels/int8_product_kernels.h"
#include "policy/kernels/product_tiles.h"

namespace dp_bench::policy {
namespace {

// `n` numbers that are `stride` apart: where they are, or together in `buffer`.
const float* Gather(const float* from, std::int64_t stride, std::int64_t n, float* buffer) {
  if (stride == 1) return from;
  for (std::int64_t i = 0; i < n; ++i) buffer[i] = from[i * stride];
  return buffer;
}

// Columns [begin, begin + n) of a row, at most kPackedColumns.
void RoundColumns(const MatrixView& m, std::int64_t row, std::int64_t begin, std::int64_t n,
                  std::uint16_t* to) {
  std::array<float, kPackedColumns> buffer;
  const float* from = m.data + row * m.row_stride + begin * m.column_stride;
  RoundToBf16(Gather(from, m.column_stride, n, buffer.data()), n, to);
}

// Columns k and k + 1 of rows [begin, begin + n) as pairs, at most 16 rows.
void RoundPairs(const MatrixView& m, std::int64_t begin, std::int64_t n, std::int64_t k,
                std::uint16_t* to) {
  std::array<float, kBf16Width> even;
  std::array<float, kBf16Width> odd{};
  const float* column = m.data + k * m.column_stride + begin * m.row_stride;
  const float* of_even = Gather(column, m.row_stride, n, even.data());
  const float* of_odd = k + 1 < m.n_columns
                            ? Gather(column + m.column_stride, m.row_stride, n, odd.data())
                            : odd.data();
  InterleaveBf16(of_even, of_odd, n, to);
}

PackedWeight PackFloatPanels(const MatrixView& w) {
  const std::int64_t width = FloatTilesFor(w.n_rows).width;
  const auto memory = Allocate<float>(RoundUp(w.n_rows, width) * w.n_columns);
  float* to = memory.get();
  for (std::int64_t begin = 0; begin < w.n_rows; begin += width) {
    const std::int64_t n = std::min(width, w.n_rows - begin);
    for (std::int64_t k = 0; k < w.n_columns; ++k, to += width) {
      const float* from = w.data + begin * w.row_stride + k * w.column_stride;
      for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * w.row_stride];
      std::fill(to + n, to + width, 0.0F);
    }
  }
  return {.type = ProductType::kFloat32,
          .n_rows = w.n_rows,
          .n_inner = w.n_columns,
          .stride = width * w.n_columns,
          .floats = memory.get(),
          .memory = memory};
}

PackedWeight FloatRows(const MatrixView& w) {
  PackedWeight packed = {.type = ProductType::kFloat32,
                         .n_rows = w.n_rows,
                         .n_inner = w.n_columns,
                         .stride = w.row_stride,
                         .floats = w.data};
  if (w.column_stride == 1) return packed;
  const auto memory = Allocate<float>(w.n_rows * w.n_columns);
  float* to = memory.get();
  for (std::int64_t i = 0; i < w.n_rows; ++i) {
    const float* from = w.data + i * w.row_stride;
    for (std::int64_t k = 0; k < w.n_columns; ++k) *to++ = from[k * w.column_stride];
  }
  packed.stride = w.n_columns;
  packed.floats = memory.get();
  packed.memory = memory;
  return packed;
}

}  // namespace

bool IsRowMajor(const MatrixView& m) {
  return m.n_rows == 1 || (m.column_stride <= m.row_stride && m.n_columns > 1);
}

void PackBf16Rows(const MatrixView& m, const PackingBlock& block, std::int64_t stride,
                  std::uint16_t* to) {
  const std::int64_t n = std::clamp<std::int64_t>(m.n_rows - block.row, 0, kBf16Rows);
  const std::int64_t end = std::min(block.column + kPackedColumns, m.n_columns);
  if (IsRowMajor(m)) {
    for (std::int64_t i = 0; i < n; ++i) {
      RoundColumns(m, block.row + i, block.column, end - block.column,
                   to + i * stride + block.column);
    }
  } else {
    std::array<std::uint16_t, 2 * kBf16Rows> pairs;
    for (std::int64_t k = block.column; k < end; k += 2) {
      RoundPairs(m, block.row, n, k, pairs.data());
      for (std::int64_t i = 0; i < n; ++i) {
        std::memcpy(to + i * stride + k, pairs.data() + 2 * i, 2 * sizeof(std::uint16_t));
      }
    }
  }
  for (std::int64_t i = n; i < kBf16Rows; ++i) {
    std::fill(to + i * stride + block.column, to + i * stride + end, std::uint16_t{0});
  }
}

void PackBf16Panel(const MatrixView& m, const PackingBlock& block, std::uint16_t* to) {
  const std::int64_t n = std::clamp<std::int64_t>(m.n_rows - block.row, 0, kBf16Width);
  const std::int64_t inner = RoundUp(m.n_columns, kBf16Inner);
  const std::int64_t end = std::min(block.column + kPackedColumns, inner);
  const std::int64_t filled = std::min(end, m.n_columns);
  to += block.column * kBf16Width;
  if (n < kBf16Width || filled < end) {
    std::fill_n(to, (end - block.column) * kBf16Width, std::uint16_t{0});
  }
  if (!IsRowMajor(m)) {
    for (std::int64_t k = block.column; k < filled; k += 2, to += 2 * kBf16Width) {
      RoundPairs(m, block.row, n, k, to);
    }
    return;
  }
  std::array<std::uint16_t, kPackedColumns> row{};
  for (std::int64_t i = 0; i < n; ++i) {
    RoundColumns(m, block.row + i, block.column, filled - block.column, row.data());
    for (std::int64_t j = 0; j < filled - block.column; j += 2) {
      std::memcpy(to + j * kBf16Width + 2 * i, row.data() + j, 2 * sizeof(std::uint16_t));
    }
  }
}

PackedWeight PackedWeight::InPanels(const MatrixView& w, ProductType type, int n_threads) {
  if (type == ProductType::kFloat32) return PackFloatPanels(w);
  if (type == ProductType::kInt8) return PackInt8Panels(w);
  const std::int64_t stride = kBf16Width * RoundUp(w.n_columns, kBf16Inner);
  const std::int64_t n_panels = Ceiling(w.n_rows, kBf16Width);
  const auto memory = Allocate<std::uint16_t>(n_panels * stride);
#pragma omp parallel num_threads(n_threads) if (n_threads > 1)
  ForPackingBlocks(w, [&](const PackingBlock& block) {
    PackBf16Panel(w, block, memory.get() + block.row / kBf16Width * stride);
  });
  return {.type = type,
          .n_rows = w.n_rows,
          .n_inner = w.n_columns,
          .stride = stride,
          .bf16 = memory.get(),
          .memory = memory};
}

PackedWeight PackedWeight::InRows(const MatrixView& w, std::int64_t n_sources, ProductType type) {
  if (type == ProductType::kFloat32) return FloatRows(w);
  if (type == ProductType::kInt8) return PackInt8Rows(w, n_sources);
  std::vector<MatrixView> parts;
  const std::int64_t n_columns = w.n_columns / n_sources;
  for (std::int64_t i = 0; i < n_sources; ++i) {
    parts.push_back(w);
    parts.back().data += i * n_columns * w.column_stride;
    parts.back().n_columns = n_columns;
  }
  return InRows(parts, type, /*n_threads=*/1);
}

// Rows [n_rows, n_sources * n_inner], both padded with zeros to multiples.
PackedWeight PackedWeight::InRows(std::span<const MatrixView> parts, ProductType type,
                                  int n_threads) {
  const std::int64_t padded = RoundUp(parts[0].n_columns, kBf16Inner);
  const auto n_parts = static_cast<std::int64_t>(parts.size());
  const std::int64_t stride = n_parts * padded;
  const std::int64_t n_rows = RoundUp(parts[0].n_rows, kBf16Rows);
  const auto memory = Allocate<std::uint16_t>(n_rows * stride);
  if (padded != parts[0].n_columns) std::fill_n(memory.get(), n_rows * stride, std::uint16_t{0});
#pragma omp parallel num_threads(n_threads) if (n_threads > 1)
  for (std::int64_t i = 0; i < n_parts; ++i) {
    const MatrixView& part = parts[static_cast<std::size_t>(i)];
    ForPackingBlocks(part, [&](const PackingBlock& block) {
      PackBf16Rows(part, block, stride, memory.get() + block.row * stride + i * padded);
    });
  }
  return {.type = type,
          .n_rows = parts[0].n_rows,
          .n_inner = n_parts * parts[0].n_columns,
          .stride = stride,
          .bf16 = memory.get(),
          .memory = memory};
}

}  // namespace dp_bench::policy
