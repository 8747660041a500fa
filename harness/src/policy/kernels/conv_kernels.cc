// See conv_kernels.h.
#include "policy/kernels/conv_kernels.h"

#include <algorithm>
#include <vector>

namespace dp_bench::policy {
namespace {

constexpr std::int64_t kPatchFloats =
    65536;                               // of a block, so that it stays in the second-level cache
constexpr std::int64_t kMinPlaces = 64;  // full panels of the product
constexpr std::int64_t kMaxPlaces = 1024;

// Places of y are numbered over the batch, rows and columns. A block is computed by one thread.
std::int64_t PlacesPerBlock(std::int64_t patch_size) {
  return std::clamp(kPatchFloats / patch_size / kMinPlaces * kMinPlaces, kMinPlaces, kMaxPlaces);
}

// Places of one row of y: [begin, begin + n) of the row.
struct RowPart {
  std::int64_t image;
  std::int64_t row;
  std::int64_t begin;
  std::int64_t n;
};

// The parts of rows that make up places [begin, end).
std::vector<RowPart> PartsOf(const Conv2dForward& args, std::int64_t begin, std::int64_t end) {
  std::vector<RowPart> parts;
  while (begin < end) {
    const std::int64_t line = begin / args.columns.out;
    const std::int64_t column = begin % args.columns.out;
    const std::int64_t n = std::min(args.columns.out - column, end - begin);
    parts.push_back({line / args.rows.out, line % args.rows.out, column, n});
    begin += n;
  }
  return parts;
}

// to[i] = from[(begin + i) * stride + offset], and 0 outside [0, axis.in).
void CopyRow(const ConvAxis& axis, const float* from, std::int64_t offset, const RowPart& part,
             float* to) {
  const auto first_inside = [&](std::int64_t limit) {  // the first i that reads at or behind limit
    const std::int64_t reach = limit - offset - part.begin * axis.stride;
    return std::clamp<std::int64_t>((reach + axis.stride - 1) / axis.stride, 0, part.n);
  };
  const std::int64_t inside = offset + part.begin * axis.stride >= 0 ? 0 : first_inside(0);
  const std::int64_t end = std::max(inside, first_inside(axis.in));
  std::fill(to, to + inside, 0.0F);
  const float* source = from + part.begin * axis.stride + offset;
  if (axis.stride == 1) {
    std::copy(source + inside, source + end, to + inside);
  } else {
    for (std::int64_t i = inside; i < end; ++i) to[i] = source[i * axis.stride];
  }
  std::fill(to + end, to + part.n, 0.0F);
}

// The patches of the parts, one per column: patches [C * KH * KW, n_places].
void GatherPatches(const Conv2dForward& args, const std::vector<RowPart>& parts,
                   std::int64_t n_places, float* patches) {
  const std::int64_t image_size = args.channels * args.rows.in * args.columns.in;
  for (std::int64_t c = 0; c < args.channels; ++c) {
    for (std::int64_t i = 0; i < args.rows.kernel; ++i) {
      for (std::int64_t j = 0; j < args.columns.kernel; ++j, patches += n_places) {
        float* to = patches;
        for (const RowPart& part : parts) {
          const std::int64_t row = part.row * args.rows.stride + i - args.rows.padding;
          if (row < 0 || row >= args.rows.in) {
            std::fill_n(to, part.n, 0.0F);
          } else {
            const float* from =
                args.x + part.image * image_size + (c * args.rows.in + row) * args.columns.in;
            CopyRow(args.columns, from, j - args.columns.padding, part, to);
          }
          to += part.n;
        }
      }
    }
  }
}

// products [O, n_places] plus bias go to their places in y.
void StorePlaces(const Conv2dForward& args, const std::vector<RowPart>& parts,
                 std::int64_t n_places, const float* products) {
  const std::int64_t map_size = args.rows.out * args.columns.out;
  for (std::int64_t o = 0; o < args.out_channels; ++o) {
    const float* from = products + o * n_places;
    const float bias = args.bias == nullptr ? 0.0F : args.bias[o];
    for (const RowPart& part : parts) {
      float* to = args.y + (part.image * args.out_channels + o) * map_size +
                  part.row * args.columns.out + part.begin;
      for (std::int64_t i = 0; i < part.n; ++i) to[i] = from[i] + bias;
      from += part.n;
    }
  }
}

void RunBlock(const Conv2dForward& args, std::int64_t begin, std::int64_t end,
              std::vector<float>& patches, std::vector<float>& products) {
  const std::int64_t n_places = end - begin;
  const std::vector<RowPart> parts = PartsOf(args, begin, end);
  GatherPatches(args, parts, n_places, patches.data());
  const ShiftedRows rows = {.x = patches.data()};
  MultiplyWeight({.sources = {&rows, 1},
                  .x_stride = n_places,
                  .n_columns = n_places,
                  .scale_period = n_places,
                  .c = products.data(),
                  .c_stride = n_places},
                 args.w, /*n_threads=*/1);
  StorePlaces(args, parts, n_places, products.data());
}

}  // namespace

void RunConv2dForward(const Conv2dForward& args, int n_threads) {
  const std::int64_t patch_size = args.channels * args.rows.kernel * args.columns.kernel;
  const std::int64_t step = PlacesPerBlock(patch_size);
  const std::int64_t n_places = args.batch * args.rows.out * args.columns.out;
#pragma omp parallel num_threads(n_threads)
  {
    std::vector<float> patches(static_cast<std::size_t>(patch_size * step));
    std::vector<float> products(static_cast<std::size_t>(args.out_channels * step));
#pragma omp for
    for (std::int64_t begin = 0; begin < n_places; begin += step) {
      RunBlock(args, begin, std::min(begin + step, n_places), patches, products);
    }
  }
}

}  // namespace dp_bench::policy
