// See resize_kernels.h.
#include "policy/kernels/resize_kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dp_bench::policy {
namespace {

// An element of y lies between two of x, along one axis.
struct Neighbours {
  std::int64_t low;
  std::int64_t high;
  float low_weight;
  float high_weight;
};

// As area_pixel_compute_source_index and guard_index_and_lambda in ATen/native/UpSample.h.
std::vector<Neighbours> NeighboursOf(std::int64_t n_in, std::int64_t n_out) {
  std::vector<Neighbours> all;
  const float scale = static_cast<float>(n_in) / static_cast<float>(n_out);
  for (std::int64_t i = 0; i < n_out; ++i) {
    if (n_in == n_out) {
      all.push_back({i, i, 1.0F, 0.0F});
      continue;
    }
    const float place = std::max(std::fma(scale, static_cast<float>(i) + 0.5F, -0.5F), 0.0F);
    const std::int64_t low = std::min(static_cast<std::int64_t>(place), n_in - 1);
    const float weight = std::clamp(place - static_cast<float>(low), 0.0F, 1.0F);
    all.push_back({low, std::min(low + 1, n_in - 1), 1.0F - weight, weight});
  }
  return all;
}

inline __attribute__((always_inline)) float Between(float low, float high, const Neighbours& at) {
  return std::fma(low, at.low_weight, high * at.high_weight);
}

// One row of y from the two rows of x around it.
inline __attribute__((always_inline)) void FillRow(const BilinearResize& args, const float* low,
                                                   const float* high, const Neighbours& row,
                                                   const std::vector<Neighbours>& columns,
                                                   float* y) {
  for (const Neighbours& column : columns) {
    const std::int64_t left = column.low * args.channels;
    const std::int64_t right = column.high * args.channels;
    for (std::int64_t c = 0; c < args.channels; ++c) {
      *y++ = Between(Between(low[left + c], low[right + c], column),
                     Between(high[left + c], high[right + c], column), row);
    }
  }
}

using FillRowFunction = void (*)(const BilinearResize&, const float*, const float*,
                                 const Neighbours&, const std::vector<Neighbours>&, float*);

void FillRowOnAnyMachine(const BilinearResize& args, const float* low, const float* high,
                         const Neighbours& row, const std::vector<Neighbours>& columns, float* y) {
  FillRow(args, low, high, row, columns, y);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void FillRowWithFma(const BilinearResize& args,
                                                        const float* low, const float* high,
                                                        const Neighbours& row,
                                                        const std::vector<Neighbours>& columns,
                                                        float* y) {
  FillRow(args, low, high, row, columns, y);
}
#endif

FillRowFunction FillRowOfThisMachine() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &FillRowWithFma;
#endif
  return &FillRowOnAnyMachine;
}

}  // namespace

void RunBilinearResize(const BilinearResize& args, int n_threads) {
  const std::vector<Neighbours> rows = NeighboursOf(args.in_height, args.out_height);
  const std::vector<Neighbours> columns = NeighboursOf(args.in_width, args.out_width);
  const FillRowFunction fill_row = FillRowOfThisMachine();
  const std::int64_t row_size = args.in_width * args.channels;
#pragma omp parallel for num_threads(n_threads) if (n_threads > 1)
  for (std::int64_t i = 0; i < args.batch * args.out_height; ++i) {
    const Neighbours& row = rows[static_cast<std::size_t>(i % args.out_height)];
    const float* image = args.x + i / args.out_height * args.in_height * row_size;
    fill_row(args, image + row.low * row_size, image + row.high * row_size, row, columns,
             args.y + i * args.out_width * args.channels);
  }
}

}  // namespace dp_bench::policy
