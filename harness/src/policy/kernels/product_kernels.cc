// See product_kernels.h. Columns are packed into panels as wide as a few registers. A tile of c is
// the product of some rows and one panel, and stays in registers for the whole sum (Goto and van de
// Geijn 2008; without their blocking of the inner dimension, because a panel of our networks fits
// the second-level cache).
#include "policy/kernels/product_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "policy/kernels/int8_product_kernels.h"
#include "policy/kernels/packing_kernels.h"
#include "policy/kernels/product_parts.h"
#include "policy/kernels/product_tiles.h"

namespace dp_bench::policy {
namespace {

// Columns [begin, begin + width) of one row of the sources: in memory, or copied to `buffer` with
// zeros outside of the source.
class RowReader {
 public:
  RowReader(const WeightByColumns& args, std::int64_t begin, std::int64_t width)
      : args_(args), begin_(begin), width_(width) {}

  const float* Read(const ShiftedRows& source, std::int64_t k, float* buffer) const {
    const std::int64_t first = begin_ + source.shift;
    const float* row = source.x + k * args_.x_stride + first;
    const std::int64_t from = std::clamp<std::int64_t>(-first, 0, width_);
    const std::int64_t to = std::clamp<std::int64_t>(
        std::min(args_.n_columns - first, args_.n_columns - begin_), from, width_);
    if (from == 0 && to == width_) return row;
    std::fill(buffer, buffer + from, 0.0F);
    std::copy(row + from, row + to, buffer + from);
    std::fill(buffer + to, buffer + width_, 0.0F);
    return buffer;
  }

 private:
  const WeightByColumns& args_;
  std::int64_t begin_;
  std::int64_t width_;
};

// `n_rows` rows of the panel that `tile` begins with; `n_columns` of its columns belong to c.
void RunFloatTiles(const FloatTiles& tiles, FloatTile tile, std::int64_t n_rows,
                   std::int64_t n_columns) {
  alignas(64) std::array<float, kRowsPerTask * kMaxFloatPanel> sums;
  const bool is_whole = n_columns == tiles.width;
  FloatTile inside = tile;
  if (!is_whole) {
    inside.c = sums.data();
    inside.c_stride = tiles.width;
    if (tile.accumulates) CopyRows(tile.c, tile.c_stride, inside.c, tiles.width, n_rows, n_columns);
  }
  std::int64_t row = 0;
  for (const FloatTiles::Kernel& kernel : tiles.kernels) {
    for (; row + kernel.n_rows <= n_rows; row += kernel.n_rows) {
      FloatTile part = inside;
      part.a += row * inside.a_stride;
      part.c += row * inside.c_stride;
      kernel.run(part);
    }
  }
  if (!is_whole) CopyRows(sums.data(), tiles.width, tile.c, tile.c_stride, n_rows, n_columns);
}

Bf16Order OrderOf(ProductType type) {
  return type == ProductType::kBf16AnyOrder ? Bf16Order::kAny : Bf16Order::kAmx;
}

void RunFloat(const RowsByWeight& args, const PackedWeight& w, int n_threads) {
  const FloatTiles& tiles = FloatTilesFor(w.n_rows);
  const std::int64_t n_panels = Ceiling(w.n_rows, tiles.width);
  const std::int64_t chunk =
      ChunkOf(args.n_rows, n_panels, tiles.kernels[0].n_rows, kRowsPerTask, n_threads);
  const Tasks tasks = {n_panels, Ceiling(args.n_rows, chunk)};
#pragma omp parallel num_threads(n_threads) if (n_threads > 1)
  RunTasks(tasks, [&](std::int64_t p, std::int64_t task) {
    const std::int64_t row = task * chunk;
    RunFloatTiles(tiles,
                  {.n_inner = w.n_inner,
                   .a = args.x + row * args.x_stride,
                   .a_stride = args.x_stride,
                   .panel = w.floats + p * w.stride,
                   .c = args.c + row * args.c_stride + p * tiles.width,
                   .c_stride = args.c_stride,
                   .accumulates = false},
                  std::min(chunk, args.n_rows - row),
                  std::min(tiles.width, w.n_rows - p * tiles.width));
  });
}

void RunFloat(const WeightByColumns& args, const PackedWeight& w, int n_threads) {
  const FloatTiles& tiles = FloatTilesFor(args.n_columns);
  const std::int64_t width = tiles.width;
  const std::int64_t n_panels = Ceiling(args.n_columns, width);
  const std::int64_t chunk =
      ChunkOf(w.n_rows, n_panels, tiles.kernels[0].n_rows, kRowsPerTask, n_threads);
  const std::int64_t n_rows_of_source = w.n_inner / static_cast<std::int64_t>(args.sources.size());
  const Tasks tasks = {n_panels, Ceiling(w.n_rows, chunk)};
#pragma omp parallel num_threads(n_threads) if (n_threads > 1)
  RunTasksWithScratch<float>(
      tasks, w.n_inner * width,
      [&](std::int64_t p, float* panel) {
        const RowReader reader(args, p * width, width);
        std::array<float, kMaxFloatPanel> buffer;
        const SourceRange range = SourcesAt(args, p * width, width);
        for (const ShiftedRows& source : args.sources.subspan(
                 static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.count))) {
          for (std::int64_t k = 0; k < n_rows_of_source; ++k, panel += width) {
            const float* row = reader.Read(source, k, buffer.data());
            for (std::int64_t i = 0; i < width; i += 4) {
              std::memcpy(panel + i, row + i, 4 * sizeof(float));
            }
          }
        }
      },
      [&](std::int64_t p, std::int64_t task, const float* panel) {
        const std::int64_t row = task * chunk;
        const SourceRange range = SourcesAt(args, p * width, width);
        RunFloatTiles(tiles,
                      {.n_inner = range.count * n_rows_of_source,
                       .a = w.floats + row * w.stride + range.begin * n_rows_of_source,
                       .a_stride = w.stride,
                       .panel = panel,
                       .c = args.c + row * args.c_stride + p * width,
                       .c_stride = args.c_stride,
                       .accumulates = args.accumulates},
                      std::min(chunk, w.n_rows - row), std::min(width, args.n_columns - p * width));
      });
}

// The right-hand side of a product, transposed: [columns, K].
std::shared_ptr<float[]> TransposeSources(const WeightByColumns& args, std::int64_t n_inner) {
  const std::int64_t n_rows = n_inner / std::ssize(args.sources);
  std::shared_ptr<float[]> transposed = Allocate<float>(args.n_columns * n_inner);
  float* to = transposed.get();
  for (std::int64_t column = 0; column < args.n_columns; ++column) {
    for (const ShiftedRows& source : args.sources) {
      const std::int64_t from = column + source.shift;
      if (from < 0 || from >= args.n_columns) {
        std::fill_n(to, n_rows, 0.0F);
      } else {
        for (std::int64_t k = 0; k < n_rows; ++k) to[k] = source.x[k * args.x_stride + from];
      }
      to += n_rows;
    }
  }
  return transposed;
}

void RunBf16(const RowsByWeight& args, const PackedWeight& w, int n_threads) {
  const std::int64_t inner = RoundUp(w.n_inner, kBf16Inner);
  const std::int64_t n_panels = Ceiling(w.n_rows, kBf16Width);
  const std::int64_t n_groups = Ceiling(n_panels, kPanelsPerTask);
  const std::int64_t chunk = ChunkOf(args.n_rows, n_groups, 2 * kBf16Rows, kRowsPerTask, n_threads);
  const Tasks tasks = {Ceiling(args.n_rows, chunk), n_groups};

  const auto round_rows = [&](std::int64_t task, std::uint16_t* a) {
    const std::int64_t row = task * chunk;
    const std::int64_t n = std::min(chunk, args.n_rows - row);
    for (std::int64_t i = 0; i < RoundUp(n, kBf16Rows); ++i, a += inner) {
      if (i < n) RoundToBf16(args.x + (row + i) * args.x_stride, w.n_inner, a);
      std::fill(a + (i < n ? w.n_inner : 0), a + inner, std::uint16_t{0});
    }
  };
#pragma omp parallel num_threads(n_threads) if (n_threads > 1)
  {
    const Bf16Kernels kernels(OrderOf(w.type));
    RunTasksWithScratch<std::uint16_t>(
        tasks, RoundUp(chunk, kBf16Rows) * inner, round_rows,
        [&](std::int64_t task, std::int64_t group, const std::uint16_t* a) {
          const std::int64_t row = task * chunk;
          const std::int64_t p = group * kPanelsPerTask;
          MultiplyBf16Rows(kernels,
                           {.n_rows = std::min(chunk, args.n_rows - row),
                            .a = a,
                            .first_panel = p,
                            .n_panels = std::min(kPanelsPerTask, n_panels - p),
                            .c = args.c + row * args.c_stride + p * kBf16Width,
                            .c_stride = args.c_stride},
                           w);
        });
  }
}

// The sources in bfloat16, with zeros in the margins.
class Bf16Columns : public ColumnBlocks<2, kBf16Inner> {
 public:
  Bf16Columns(const WeightByColumns& args, std::int64_t n_rows)
      : ColumnBlocks(args, n_rows),
        n_columns_(args.n_columns),
        memory_(Allocate<std::uint16_t>(n_rounds() * stride())) {}

  /// The pairs of rows to round.
  std::int64_t n_rounds() const { return n_matrices() * n_groups(); }

  void Round(std::int64_t i) {
    std::uint16_t* to = memory_.get() + i * stride();
    const std::int64_t row = i % n_groups() * 2;
    const std::int64_t end = row < n_rows() ? margin() + n_columns_ : margin();
    std::fill_n(to, 2 * margin(), std::uint16_t{0});
    std::fill(to + 2 * end, to + stride(), std::uint16_t{0});
    if (row >= n_rows()) return;
    const float* const x = Row(i / n_groups(), row);
    if (row + 1 < n_rows()) {
      InterleaveBf16(x, Row(i / n_groups(), row + 1), n_columns_, to + 2 * margin());
    } else {
      const std::vector<float> zeros(static_cast<std::size_t>(n_columns_));
      InterleaveBf16(x, zeros.data(), n_columns_, to + 2 * margin());
    }
  }

  const std::uint16_t* data() const { return memory_.get(); }

 private:
  std::int64_t n_columns_;
  std::shared_ptr<std::uint16_t[]> memory_;
};

void RunBf16(const WeightByColumns& args, const PackedWeight& w, int n_threads) {
  Bf16Columns columns(args, w.n_inner / static_cast<std::int64_t>(args.sources.size()));
  const std::vector<std::int64_t> block_offsets = columns.BlockOffsets();
  const std::int64_t n_panels = Ceiling(args.n_columns, kBf16Width);
  const std::int64_t n_groups = Ceiling(n_panels, kPanelsPerTask);
  const std::int64_t chunk = ChunkOf(w.n_rows, n_groups, 2 * kBf16Rows, kRowsPerTask, n_threads);
  const Tasks tasks = {n_groups, Ceiling(w.n_rows, chunk)};
#pragma omp parallel num_threads(n_threads) if (n_threads > 1)
  {
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < columns.n_rounds(); ++i) columns.Round(i);
    const Bf16Kernels kernels(OrderOf(w.type));
    RunTasks(tasks, [&](std::int64_t group, std::int64_t task) {
      const std::int64_t row = task * chunk;
      const std::int64_t p = group * kPanelsPerTask;
      const SourceRange range = SourcesAt(args, p * kBf16Width, kPanelsPerTask * kBf16Width);
      const std::int64_t first_block = range.begin * columns.blocks_of_source();
      kernels.RunRows({.n_blocks = range.count * columns.blocks_of_source(),
                       .n_rows = std::min(chunk, w.n_rows - row),
                       .n_panels = std::min(kPanelsPerTask, n_panels - p),
                       .a = w.bf16 + row * w.stride + first_block * kBf16Inner,
                       .a_stride = w.stride,
                       .b = columns.data() + 2 * p * kBf16Width,
                       .block_offsets = block_offsets.data() + first_block,
                       .b_stride = columns.stride(),
                       .panel_stride = 2 * kBf16Width,
                       .c = args.c + row * args.c_stride + p * kBf16Width,
                       .c_stride = args.c_stride},
                      args.n_columns - p * kBf16Width);
    });
  }
}

// The matrix a of ProductOverColumns in bfloat16, with zeros around it, so that a shift is an
// offset in memory: [groups of 16 rows, 16, stride].
class Bf16ShiftedRows {
 public:
  explicit Bf16ShiftedRows(const ProductOverColumns& args) : a_(args.a) {
    for (const ShiftedResult& result : args.results) {
      margin_ = std::max(margin_, std::abs(result.shift));
    }
    margin_ = RoundUp(margin_, kBf16Inner);
    stride_ = RoundUp(a_.n_columns, kBf16Inner) + 2 * margin_;
    if (stride_ % 256 == 0) stride_ += kBf16Inner;  // rows would compete for a place in the cache
    n_rows_ = RoundUp(a_.n_rows, kBf16Rows);
    memory_ = Allocate<std::uint16_t>(n_rows_ * stride_);
  }

  // By all threads of a parallel region.
  void Pack() {
    ForPackingBlocks(a_, [this](const PackingBlock& block) {
      PackBf16Rows(a_, block, stride_, memory_.get() + block.row * stride_ + margin_);
    });
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < n_rows_; ++row) {
      std::uint16_t* const begin = memory_.get() + row * stride_;
      std::fill_n(begin, margin_, std::uint16_t{0});
      std::fill(begin + margin_ + a_.n_columns, begin + stride_, std::uint16_t{0});
    }
  }

  const std::uint16_t* Row(std::int64_t row, std::int64_t shift) const {
    return memory_.get() + row * stride_ + margin_ + shift;
  }
  std::int64_t stride() const { return stride_; }

 private:
  const MatrixView& a_;
  std::int64_t margin_ = 0;
  std::int64_t stride_ = 0;
  std::int64_t n_rows_ = 0;
  std::shared_ptr<std::uint16_t[]> memory_;
};

}  // namespace

void MultiplyOverColumns(const ProductOverColumns& args, int n_threads) {
  Bf16ShiftedRows a(args);
  const std::int64_t inner = RoundUp(args.b.n_columns, kBf16Inner);
  const std::int64_t n_panels = Ceiling(args.b.n_rows, kBf16Width);
  const auto panels = Allocate<std::uint16_t>(n_panels * kBf16Width * inner);
  const std::vector<std::int64_t> block_offsets = PanelOffsets(inner, kBf16Inner);
  constexpr std::int64_t kRows = 2 * kBf16Rows;
  const auto n_results = static_cast<std::int64_t>(args.results.size());
  const Tasks tasks = {Ceiling(n_panels, kPanelsPerTask),
                       n_results * Ceiling(args.a.n_rows, kRows)};
#pragma omp parallel num_threads(n_threads) if (n_threads > 1)
  {
    a.Pack();
    ForPackingBlocks(args.b, [&](const PackingBlock& block) {
      PackBf16Panel(args.b, block, panels.get() + block.row * inner);
    });
    const Bf16Kernels kernels(Bf16Order::kAny);
    RunTasks(tasks, [&](std::int64_t group, std::int64_t task) {
      const ShiftedResult& result = args.results[static_cast<std::size_t>(task % n_results)];
      const std::int64_t row = task / n_results * kRows;
      const std::int64_t p = group * kPanelsPerTask;
      // blocks in which the shifted a is not 0
      const std::int64_t begin = std::max<std::int64_t>(-result.shift, 0) / kBf16Inner;
      const std::int64_t end =
          Ceiling(args.b.n_columns - std::max<std::int64_t>(result.shift, 0), kBf16Inner);
      kernels.RunRows({.n_blocks = std::max<std::int64_t>(end - begin, 0),
                       .n_rows = std::min(kRows, args.a.n_rows - row),
                       .n_panels = std::min(kPanelsPerTask, n_panels - p),
                       .a = a.Row(row, result.shift) + begin * kBf16Inner,
                       .a_stride = a.stride(),
                       .b = panels.get() + (p * inner + begin * kBf16Inner) * kBf16Width,
                       .block_offsets = block_offsets.data(),
                       .b_stride = 2 * kBf16Width,
                       .panel_stride = kBf16Width * inner,
                       .c = result.c + row * result.c_stride + p * kBf16Width,
                       .c_stride = result.c_stride},
                      args.b.n_rows - p * kBf16Width);
    });
  }
}

void MultiplyBf16Rows(const Bf16Kernels& kernels, const Bf16RowsByWeight& args,
                      const PackedWeight& w) {
  const std::int64_t inner = RoundUp(w.n_inner, kBf16Inner);
  const std::vector<std::int64_t> block_offsets = PanelOffsets(inner, kBf16Inner);
  const std::int64_t end = args.first_panel + args.n_panels;
  for (std::int64_t p = args.first_panel; p < end; p += kPanelsPerTask) {
    kernels.RunRows({.n_blocks = inner / kBf16Inner,
                     .n_rows = args.n_rows,
                     .n_panels = std::min(kPanelsPerTask, end - p),
                     .a = args.a,
                     .a_stride = inner,
                     .b = w.bf16 + p * w.stride,
                     .block_offsets = block_offsets.data(),
                     .b_stride = 2 * kBf16Width,
                     .panel_stride = w.stride,
                     .c = args.c + (p - args.first_panel) * kBf16Width,
                     .c_stride = args.c_stride},
                    w.n_rows - p * kBf16Width);
  }
}

namespace {

// Passing a product to other threads costs about as much as this many multiply-adds.
std::int64_t WorkPerTeam(ProductType type) {
  switch (type) {
    case ProductType::kFloat32:
      return 1 << 19;
    case ProductType::kInt8:
      return 1 << 20;
    case ProductType::kBf16:
    case ProductType::kBf16AnyOrder:
      return 1 << 24;
  }
  return 0;
}

template <class Product>
void Multiply(const Product& args, std::int64_t n_columns, const PackedWeight& w, int n_threads) {
  if (n_columns * w.n_rows * w.n_inner < WorkPerTeam(w.type)) n_threads = 1;
  switch (w.type) {
    case ProductType::kFloat32:
      return RunFloat(args, w, n_threads);
    case ProductType::kInt8:
      return RunInt8(args, w, n_threads);
    case ProductType::kBf16:
    case ProductType::kBf16AnyOrder:
      return RunBf16(args, w, n_threads);
  }
}

}  // namespace

void MultiplyByWeight(const RowsByWeight& args, const PackedWeight& w, int n_threads) {
  Multiply(args, args.n_rows, w, n_threads);
}

void MultiplyWeight(const WeightByColumns& args, const PackedWeight& w, int n_threads) {
  Multiply(args, args.n_columns, w, n_threads);
}

void MultiplyWeightInPanels(const WeightByColumns& args, const PackedWeight& w, int n_threads) {
  const std::shared_ptr<float[]> x = TransposeSources(args, w.n_inner);
  const std::shared_ptr<float[]> c = Allocate<float>(args.n_columns * w.n_rows);
  MultiplyByWeight({.n_rows = args.n_columns,
                    .x = x.get(),
                    .x_stride = w.n_inner,
                    .c = c.get(),
                    .c_stride = w.n_rows},
                   w, n_threads);
  for (std::int64_t row = 0; row < w.n_rows; ++row) {
    for (std::int64_t column = 0; column < args.n_columns; ++column) {
      args.c[row * args.c_stride + column] = c[column * w.n_rows + row];
    }
  }
}

}  // namespace dp_bench::policy
