// See product_kernels.h. The columns of x are packed into panels as wide as a few registers. A tile
// of c is the product of some rows of w and one panel, and stays in registers for the whole sum
// (Goto and van de Geijn 2008; without their blocking of k, because a panel of our networks fits
// the second-level cache).
#include "policy/kernels/product_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace dp_bench::policy {
namespace {

constexpr std::int64_t kMaxPanelWidth = 32;
constexpr std::int64_t kRowsPerTask = 96;  // of w; a multiple of the tallest tiles

// Passing a product to other threads costs about as much as this many multiply-adds.
constexpr std::int64_t kWorkPerTeam = 524288;

struct Tile {
  std::int64_t n_inner;
  const float* w;
  std::int64_t w_stride;
  const float* panel;  // [n_inner, width]
  float* sums;         // [rows, width]; added to, not overwritten
};

// The body is a macro because a template inlined into a function for wider registers keeps the
// narrow registers it was first compiled for.
#define DPB_DEFINE_TILES(NAME, TARGET, BYTES)                                          \
  struct NAME {                                                                        \
    static constexpr std::int64_t kLanes = (BYTES) / 4;                                \
    using Vector = float __attribute__((vector_size(BYTES)));                          \
                                                                                       \
    template <int kRows, int kVectors>                                                 \
    __attribute__((TARGET)) static void Run(const Tile& tile) {                        \
      Vector sums[kRows][kVectors];                                                    \
      _Pragma("GCC unroll 32") for (int i = 0; i < kRows * kVectors; ++i) {            \
        std::memcpy(&sums[i / kVectors][i % kVectors], tile.sums + i * kLanes, BYTES); \
      }                                                                                \
      const float* panel = tile.panel;                                                 \
      for (std::int64_t k = 0; k < tile.n_inner; ++k) {                                \
        Vector x[kVectors];                                                            \
        _Pragma("GCC unroll 2") for (int v = 0; v < kVectors; ++v, panel += kLanes) {  \
          std::memcpy(&x[v], panel, BYTES);                                            \
        }                                                                              \
        _Pragma("GCC unroll 32") for (int i = 0; i < kRows * kVectors; ++i) {          \
          sums[i / kVectors][i % kVectors] +=                                          \
              tile.w[(i / kVectors) * tile.w_stride + k] * x[i % kVectors];            \
        }                                                                              \
      }                                                                                \
      _Pragma("GCC unroll 32") for (int i = 0; i < kRows * kVectors; ++i) {            \
        std::memcpy(tile.sums + i * kLanes, &sums[i / kVectors][i % kVectors], BYTES); \
      }                                                                                \
    }                                                                                  \
  }

// Tiles of one panel width, the tallest first; the last tile has a single row.
struct PanelKernels {
  struct Kernel {
    std::int64_t n_rows;
    void (*run)(const Tile&);
  };
  std::int64_t width;
  std::array<Kernel, 4> kernels;
};

template <class Tiles, int kTallest, int kVectors>
constexpr PanelKernels PanelOf() {
  return {Tiles::kLanes * kVectors,
          {{{kTallest, Tiles::template Run<kTallest, kVectors>},
            {4, Tiles::template Run<4, kVectors>},
            {2, Tiles::template Run<2, kVectors>},
            {1, Tiles::template Run<1, kVectors>}}}};
}

// From the narrowest panel, for few columns, to the widest.
using ProductKernels = std::array<PanelKernels, 3>;

#if defined(__x86_64__)
DPB_DEFINE_TILES(TilesOf16, target("avx512f"), 64);
DPB_DEFINE_TILES(TilesOf8, target("avx2,fma"), 32);
DPB_DEFINE_TILES(TilesOf4, target("avx2,fma"), 16);

constexpr ProductKernels kAvx512 = {PanelOf<TilesOf8, 8, 1>(), PanelOf<TilesOf16, 8, 1>(),
                                    PanelOf<TilesOf16, 12, 2>()};
constexpr ProductKernels kAvx2 = {PanelOf<TilesOf4, 8, 1>(), PanelOf<TilesOf8, 8, 1>(),
                                  PanelOf<TilesOf8, 6, 2>()};
#endif

DPB_DEFINE_TILES(TilesOfAnyMachine, , 16);

constexpr ProductKernels kAnyMachine = {PanelOf<TilesOfAnyMachine, 8, 1>(),
                                        PanelOf<TilesOfAnyMachine, 6, 2>(),
                                        PanelOf<TilesOfAnyMachine, 6, 2>()};

const ProductKernels& KernelsOfThisMachine() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2;
#endif
  return kAnyMachine;
}

// The narrowest panel that fits all columns, or else the widest.
const PanelKernels& KernelsFor(std::int64_t n_columns) {
  const ProductKernels& machine = KernelsOfThisMachine();
  for (const PanelKernels& kernels : machine) {
    if (n_columns <= kernels.width) return kernels;
  }
  return machine.back();
}

// Columns [begin, begin + width) of x as [n_inner, width], zeros where x ends.
void Pack(const MatrixProduct& args, std::int64_t begin, std::int64_t width, float* panel) {
  const std::int64_t n = std::min(width, args.n_columns - begin);
  const float* x = args.x + begin * args.x_column_stride;
  if (n < width) std::fill_n(panel, args.n_inner * width, 0.0F);
  if (args.x_column_stride == 1) {
    for (std::int64_t k = 0; k < args.n_inner; ++k) {
      std::memcpy(panel + k * width, x + k * args.x_inner_stride,
                  static_cast<std::size_t>(n) * sizeof(float));
    }
    return;
  }
  for (std::int64_t j = 0; j < n; ++j) {
    const float* column = x + j * args.x_column_stride;
    for (std::int64_t k = 0; k < args.n_inner; ++k) {
      panel[k * width + j] = column[k * args.x_inner_stride];
    }
  }
}

// The part of c that one task computes: some rows and one panel of columns.
struct Block {
  std::int64_t row_begin, n_rows;
  std::int64_t column_begin, n_columns;
  std::int64_t width;
};

void Load(const MatrixProduct& args, const Block& block, float* sums) {
  for (std::int64_t i = 0; i < block.n_rows; ++i) {
    const float* c = args.c + (block.row_begin + i) * args.c_row_stride +
                     block.column_begin * args.c_column_stride;
    for (std::int64_t j = 0; j < block.n_columns; ++j)
      sums[i * block.width + j] = c[j * args.c_column_stride];
  }
}

void Store(const MatrixProduct& args, const Block& block, const float* sums) {
  float* c =
      args.c + block.row_begin * args.c_row_stride + block.column_begin * args.c_column_stride;
  if (args.c_column_stride == 1) {
    for (std::int64_t i = 0; i < block.n_rows; ++i) {
      std::memcpy(c + i * args.c_row_stride, sums + i * block.width,
                  static_cast<std::size_t>(block.n_columns) * sizeof(float));
    }
    return;
  }
  for (std::int64_t j = 0; j < block.n_columns; ++j) {
    float* column = c + j * args.c_column_stride;
    for (std::int64_t i = 0; i < block.n_rows; ++i) column[i] = sums[i * block.width + j];
  }
}

void ComputeBlock(const MatrixProduct& args, const PanelKernels& panel_kernels, const Block& block,
                  const float* panel) {
  alignas(64) std::array<float, kRowsPerTask * kMaxPanelWidth> sums;
  std::fill_n(sums.begin(), block.n_rows * block.width, 0.0F);
  if (args.accumulates) Load(args, block, sums.data());
  std::int64_t row = 0;
  for (const PanelKernels::Kernel& kernel : panel_kernels.kernels) {
    for (; row + kernel.n_rows <= block.n_rows; row += kernel.n_rows) {
      kernel.run({.n_inner = args.n_inner,
                  .w = args.w + (block.row_begin + row) * args.w_stride,
                  .w_stride = args.w_stride,
                  .panel = panel,
                  .sums = sums.data() + row * block.width});
    }
  }
  Store(args, block, sums.data());
}

}  // namespace

void RunMatrixProduct(const MatrixProduct& args, int n_threads) {
  const PanelKernels& kernels = KernelsFor(args.n_columns);
  const std::int64_t width = kernels.width;
  const std::int64_t n_panels = (args.n_columns + width - 1) / width;
  const std::int64_t n_chunks = (args.n_rows + kRowsPerTask - 1) / kRowsPerTask;
  const std::int64_t work = args.n_rows * args.n_inner * args.n_columns;
  const int n = work < kWorkPerTeam ? 1 : n_threads;
  // each thread packs every panel that it uses: that costs one pass without a barrier, which is
  // cheaper than sharing
#pragma omp parallel num_threads(n) if (n > 1)
  {
    const auto panel =
        std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(args.n_inner * width));
    std::int64_t packed = -1;
#pragma omp for collapse(2) schedule(static) nowait
    for (std::int64_t p = 0; p < n_panels; ++p) {
      for (std::int64_t chunk = 0; chunk < n_chunks; ++chunk) {
        if (packed != p) Pack(args, p * width, width, panel.get());
        packed = p;
        const std::int64_t row = chunk * kRowsPerTask;
        ComputeBlock(args, kernels,
                     {.row_begin = row,
                      .n_rows = std::min(kRowsPerTask, args.n_rows - row),
                      .column_begin = p * width,
                      .n_columns = std::min(width, args.n_columns - p * width),
                      .width = width},
                     panel.get());
      }
    }
  }
}

}  // namespace dp_bench::policy
