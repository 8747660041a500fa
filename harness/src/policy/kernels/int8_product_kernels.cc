// See int8_product_kernels.h. A number x of a row with the scale s and the zero point z is rounded
// to s (q - z), q from 0 to 255, and a weight to s' q'. So the sum of products is s s' (sum of q q'
// - z sum of q'), where both sums are integers.
#include "policy/kernels/int8_product_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "policy/kernels/packing_kernels.h"
#include "policy/kernels/product_parts.h"
#include "policy/kernels/product_tiles.h"
#include "policy/kernels/vector_math.h"

namespace dp_bench::policy {
namespace {

constexpr std::int64_t kGroup = 4;  // inner elements that are neighbours in memory
constexpr std::int64_t kTile = 2 * kBf16Rows;
constexpr float kLevels = 255.0F;
constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
constexpr std::int32_t kMagicBits = 0x4B400000;

// The bits of the largest number and of the smallest one, or of 0 and -0. Compared as integers,
// they also tell NaN and infinity.
struct Range {
  std::int32_t high = 0;
  std::uint32_t low = 0x80000000U;
};

DPB_ALWAYS_INLINE void Widen(float x, std::int32_t* high, std::uint32_t* low) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  *high = std::max(*high, static_cast<std::int32_t>(bits));
  *low = std::max(*low, bits);
}

struct Rounding {
  float scale;
  float inverse;
  std::int32_t zero_point;
};

// The same bits on every processor: single operations on float32 numbers.
Rounding RoundingOf(const Range& range) {
  const auto high = std::bit_cast<float>(range.high);
  const auto low = std::bit_cast<float>(range.low);
  const float width = high - low;
  if (!std::isfinite(width)) return {.scale = NAN, .inverse = 0.0F, .zero_point = 0};
  const float scale = width / kLevels;
  if (!std::isnormal(scale)) return {.scale = 0.0F, .inverse = 0.0F, .zero_point = 0};
  const float inverse = kLevels / width;
  return {.scale = scale,
          .inverse = inverse,
          .zero_point = static_cast<std::int32_t>(std::nearbyint(-low * inverse))};
}

// x inverse + zero_point, rounded to 0 to 255.
DPB_ALWAYS_INLINE std::uint32_t Round(float x, float inverse, std::int32_t zero_point) {
  const float shifted = x * inverse + kMagic;
  const std::int32_t level = std::bit_cast<std::int32_t>(shifted) - kMagicBits + zero_point;
  return static_cast<std::uint32_t>(level < 0 ? 0 : level > 255 ? 255 : level);
}

DPB_VECTOR_VERSIONS Range RangeOfRow(const float* x, std::int64_t n) {
  Range range;
  for (std::int64_t i = 0; i < n; ++i) Widen(x[i], &range.high, &range.low);
  return range;
}

// Element by element.
DPB_VECTOR_VERSIONS void WidenRow(const float* __restrict x, std::int64_t n,
                                  std::int32_t* __restrict high, std::uint32_t* __restrict low) {
  for (std::int64_t i = 0; i < n; ++i) Widen(x[i], high + i, low + i);
}

DPB_VECTOR_VERSIONS void RoundRow(const float* __restrict x, std::int64_t n,
                                  const Rounding& rounding, std::uint8_t* __restrict to) {
  const float inverse = rounding.inverse;
  const std::int32_t zero_point = rounding.zero_point;
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<std::uint8_t>(Round(x[i], inverse, zero_point));
  }
}

// x / scale, rounded; from -127 to 127.
DPB_VECTOR_VERSIONS void RoundWeights(const float* __restrict x, std::int64_t n, float scale,
                                      std::int8_t* __restrict to) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float shifted = x[i] / scale + kMagic;
    const std::int32_t level = std::bit_cast<std::int32_t>(shifted) - kMagicBits;
    to[i] = static_cast<std::int8_t>(level < -127 ? -127 : level > 127 ? 127 : level);
  }
}

// A weight in int8, with the scales of its rows and their sums over each source.
struct Int8Weight {
  Int8Weight(const MatrixView& w, std::int64_t n_sources, std::int64_t n_numbers)
      : numbers(Allocate<std::int8_t>(n_numbers)),
        n_padded_rows(RoundUp(w.n_rows, kTile)),
        n_inner(w.n_columns / n_sources),
        scales(static_cast<std::size_t>(n_padded_rows)),
        sums(static_cast<std::size_t>(n_sources * n_padded_rows)) {
    std::fill_n(numbers.get(), n_numbers, std::int8_t{0});
  }

  // Calls put(row, source, its n_inner numbers) for all rows and sources.
  template <class Put>
  void RoundRows(const MatrixView& w, const Put& put) {
    std::vector<float> x(static_cast<std::size_t>(w.n_columns));
    std::vector<std::int8_t> rounded(x.size());
    for (std::int64_t row = 0; row < w.n_rows; ++row) {
      const float* const from = w.data + row * w.row_stride;
      for (std::size_t k = 0; k < x.size(); ++k) {
        x[k] = from[static_cast<std::int64_t>(k) * w.column_stride];
      }
      const float scale = WeightScale(RangeOfRow(x.data(), w.n_columns));
      scales[static_cast<std::size_t>(row)] = scale;
      if (!std::isnormal(scale)) continue;
      RoundWeights(x.data(), w.n_columns, scale, rounded.data());
      for (std::int64_t k = 0; k < w.n_columns; k += n_inner) {
        const std::int8_t* const of_source = rounded.data() + k;
        sums[static_cast<std::size_t>(k / n_inner * n_padded_rows + row)] =
            std::accumulate(of_source, of_source + n_inner, std::int32_t{0});
        put(row, k / n_inner, of_source);
      }
    }
  }

  static float WeightScale(const Range& range) {
    const auto high = std::bit_cast<float>(range.high);
    const auto low = std::bit_cast<float>(range.low);
    return std::isfinite(high) && std::isfinite(low) ? std::max(high, -low) / 127.0F : NAN;
  }

  static PackedWeight Pack(const std::shared_ptr<Int8Weight>& weight, const MatrixView& w,
                           std::int64_t stride) {
    return {.type = ProductType::kInt8,
            .n_rows = w.n_rows,
            .n_inner = w.n_columns,
            .stride = stride,
            .int8 = weight->numbers.get(),
            .scales = weight->scales.data(),
            .sums = weight->sums.data(),
            .memory = weight};
  }

  std::shared_ptr<std::int8_t[]> numbers;

  std::int64_t n_padded_rows;
  std::int64_t n_inner;  // of a source
  std::vector<float> scales;
  std::vector<std::int32_t> sums;
};

const std::uint8_t* BytesOf(const std::int8_t* numbers) {
  return reinterpret_cast<const std::uint8_t*>(numbers);
}

// What turns the integer sums of a tile into products: element (i, j) is (sum - row_terms[i] *
// column_terms[j]) * row_scales[i] * column_scales[j].
struct Products {
  const std::int32_t* row_terms;
  const float* row_scales;
  const std::int32_t* column_terms;
  const float* column_scales;
};

// The sums of 32 rows of a weight over some sources.
std::array<std::int32_t, kTile> SumsOf(const PackedWeight& w, const SourceRange& sources,
                                       std::int64_t row) {
  std::array<std::int32_t, kTile> sums = {};
  for (std::int64_t i = sources.begin; i < sources.begin + sources.count; ++i) {
    const std::int32_t* const of_source = w.sums + i * RoundUp(w.n_rows, kTile) + row;
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += of_source[j];
  }
  return sums;
}

using TileSums = std::array<std::int32_t, kTile * kTile>;

DPB_VECTOR_VERSIONS void StoreProducts(const TileSums& sums, const Products& products,
                                       std::int64_t n_rows, std::int64_t n_columns, float* c,
                                       std::int64_t c_stride) {
  n_columns = std::min(n_columns, kTile);
  for (std::int64_t i = 0; i < n_rows; ++i) {
    const std::int32_t* const row = sums.data() + i * kTile;
    const std::int32_t row_term = products.row_terms[i];
    const float row_scale = products.row_scales[i];
    for (std::int64_t j = 0; j < n_columns; ++j) {
      const std::int32_t sum = row[j] - row_term * products.column_terms[j];
      c[i * c_stride + j] = static_cast<float>(sum) * (row_scale * products.column_scales[j]);
    }
  }
}

// The rows of RowsByWeight: [rows up to a multiple of 16, inner].
struct Int8Rows {
  explicit Int8Rows(const RowsByWeight& rows, std::int64_t n_inner)
      : args(rows),
        inner(n_inner),
        stride(RoundUp(n_inner, kInt8Inner)),
        numbers(Allocate<std::uint8_t>(RoundUp(rows.n_rows, kBf16Rows) * stride)),
        zero_points(static_cast<std::size_t>(rows.n_rows)),
        scales(static_cast<std::size_t>(rows.n_rows)) {}

  void Round(std::int64_t row) {
    std::uint8_t* const to = numbers.get() + row * stride;
    std::fill(to + (row < args.n_rows ? inner : 0), to + stride, std::uint8_t{0});
    if (row >= args.n_rows) return;
    const float* const x = args.x + row * args.x_stride;
    const Rounding rounding = RoundingOf(RangeOfRow(x, inner));
    RoundRow(x, inner, rounding, to);
    zero_points[static_cast<std::size_t>(row)] = rounding.zero_point;
    scales[static_cast<std::size_t>(row)] = rounding.scale;
  }

  const RowsByWeight& args;
  std::int64_t inner;
  std::int64_t stride;
  std::shared_ptr<std::uint8_t[]> numbers;
  std::vector<std::int32_t> zero_points;
  std::vector<float> scales;
};

// A range for each column.
class ColumnRanges {
 public:
  explicit ColumnRanges(std::int64_t n)
      : high_(static_cast<std::size_t>(n), Range().high), low_(high_.size(), Range().low) {}

  void Add(const float* row) { WidenRow(row, std::ssize(high_), high_.data(), low_.data()); }

  void Add(const ColumnRanges& other) {
    for (std::size_t i = 0; i < high_.size(); ++i) {
      high_[i] = std::max(high_[i], other.high_[i]);
      low_[i] = std::max(low_[i], other.low_[i]);
    }
  }

  // That of columns first, first + step, ...
  Range Every(std::int64_t step, std::int64_t first) const {
    Range range;
    for (auto i = static_cast<std::size_t>(first); i < high_.size();
         i += static_cast<std::size_t>(step)) {
      range.high = std::max(range.high, high_[i]);
      range.low = std::max(range.low, low_[i]);
    }
    return range;
  }

 private:
  std::vector<std::int32_t> high_;
  std::vector<std::uint32_t> low_;
};

// The columns of four rows, rounded and side by side. Without __restrict, the loop has no vectors.
struct GroupOfRows {
  std::array<const float*, kGroup> rows;
  const float* inverse;
  const std::int32_t* zero_points;
};

DPB_VECTOR_VERSIONS void RoundGroup(const GroupOfRows& group, std::int64_t n,
                                    std::uint32_t* __restrict to) {
  const float* __restrict const x0 = group.rows[0];
  const float* __restrict const x1 = group.rows[1];
  const float* __restrict const x2 = group.rows[2];
  const float* __restrict const x3 = group.rows[3];
  const float* __restrict const inverses = group.inverse;
  const std::int32_t* __restrict const zeros = group.zero_points;
  for (std::int64_t j = 0; j < n; ++j) {
    const float inverse = inverses[j];
    const std::int32_t zero = zeros[j];
    to[j] = Round(x0[j], inverse, zero) | Round(x1[j], inverse, zero) << 8U |
            Round(x2[j], inverse, zero) << 16U | Round(x3[j], inverse, zero) << 24U;
  }
}

// The sources in int8. In the margins is what 0 becomes.
class Int8Columns : public ColumnBlocks<kGroup, kInt8Inner> {
 public:
  Int8Columns(const WeightByColumns& args, std::int64_t n_rows)
      : ColumnBlocks(args, n_rows),
        args_(args),
        ranges_(args.n_columns),
        memory_(Allocate<std::uint8_t>(n_matrices() * n_groups() * stride())) {}

  // By all threads of a parallel region.
  void Pack() {
    ColumnRanges ranges(args_.n_columns);
#pragma omp for schedule(static) nowait
    for (std::int64_t i = 0; i < n_matrices() * n_rows(); ++i) {
      ranges.Add(Row(i / n_rows(), i % n_rows()));
    }
#pragma omp critical(dp_bench_int8_ranges)
    ranges_.Add(ranges);
#pragma omp barrier
#pragma omp single
    FindRoundings();
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < n_matrices() * n_groups(); ++i) Round(i);
  }

  const std::uint8_t* data() const { return memory_.get(); }
  const float* scales() const { return scales_.data(); }
  const std::int32_t* zero_points() const { return zero_points_.data() + margin(); }

 private:
  // One element per column, margins included; those of scales begin with column 0.
  void FindRoundings() {
    const std::int64_t period = args_.scale_period;
    std::vector<Rounding> of_period;
    for (std::int64_t i = 0; i < period; ++i) {
      of_period.push_back(RoundingOf(ranges_.Every(period, i)));
    }
    inverse_.reserve(static_cast<std::size_t>(width()));
    zero_points_.reserve(static_cast<std::size_t>(width()));
    ForColumns(of_period, -margin(), width() - margin(), [&](const Rounding& rounding) {
      inverse_.push_back(rounding.inverse);
      zero_points_.push_back(rounding.zero_point);
    });
    const std::int64_t n_scales = RoundUp(args_.n_columns, kTile);
    scales_.reserve(static_cast<std::size_t>(n_scales));
    ForColumns(of_period, 0, n_scales,
               [&](const Rounding& rounding) { scales_.push_back(rounding.scale); });
  }

  // Calls put(the rounding of column j) for columns [begin, end). Counting is faster than a
  // remainder for each.
  template <class Put>
  static void ForColumns(const std::vector<Rounding>& of_period, std::int64_t begin,
                         std::int64_t end, const Put& put) {
    const std::int64_t period = std::ssize(of_period);
    auto i = static_cast<std::size_t>((begin % period + period) % period);
    for (std::int64_t j = begin; j < end; ++j) {
      put(of_period[i]);
      if (++i == of_period.size()) i = 0;
    }
  }

  void Round(std::int64_t i) {
    std::uint8_t* const to = memory_.get() + i * stride();
    for (std::int64_t j = 0; j < width(); ++j) {
      if (j == margin()) j += args_.n_columns;  // these follow
      std::memset(to + kGroup * j, zero_points_[static_cast<std::size_t>(j)], kGroup);
    }
    GroupOfRows group = {
        .rows = {}, .inverse = inverse_.data() + margin(), .zero_points = zero_points()};
    for (std::int64_t k = 0; k < kGroup; ++k) {  // beyond the last row, weights are 0
      const std::int64_t row = std::min(i % n_groups() * kGroup + k, n_rows() - 1);
      group.rows[static_cast<std::size_t>(k)] = Row(i / n_groups(), row);
    }
    RoundGroup(group, args_.n_columns, reinterpret_cast<std::uint32_t*>(to + kGroup * margin()));
  }

  const WeightByColumns& args_;
  ColumnRanges ranges_;
  std::vector<float> inverse_;
  std::vector<std::int32_t> zero_points_;
  std::vector<float> scales_;
  std::shared_ptr<std::uint8_t[]> memory_;
};

}  // namespace

bool FitsInt8(const MatrixView& w, std::int64_t n_sources) {
  constexpr std::int64_t kLeast = 64;
  constexpr std::int64_t kMost = 65536;  // times 255 * 127
  return w.n_rows >= kLeast && w.n_columns / n_sources >= kLeast && w.n_columns <= kMost;
}

PackedWeight PackInt8Panels(const MatrixView& w) {
  const std::int64_t stride = kBf16Width * RoundUp(w.n_columns, kInt8Inner);
  const auto weight = std::make_shared<Int8Weight>(w, 1, Ceiling(w.n_rows, kBf16Width) * stride);
  weight->RoundRows(w, [&](std::int64_t row, std::int64_t, const std::int8_t* rounded) {
    std::int8_t* const to =
        weight->numbers.get() + row / kBf16Width * stride + row % kBf16Width * kGroup;
    for (std::int64_t k = 0; k < w.n_columns; ++k) {
      to[k / kGroup * kGroup * kBf16Width + k % kGroup] = rounded[k];
    }
  });
  return Int8Weight::Pack(weight, w, stride);
}

PackedWeight PackInt8Rows(const MatrixView& w, std::int64_t n_sources) {
  const std::int64_t n_columns = w.n_columns / n_sources;
  const std::int64_t padded = RoundUp(n_columns, kInt8Inner);
  const std::int64_t stride = n_sources * padded;
  const auto weight =
      std::make_shared<Int8Weight>(w, n_sources, RoundUp(w.n_rows, kBf16Rows) * stride);
  weight->RoundRows(w, [&](std::int64_t row, std::int64_t source, const std::int8_t* rounded) {
    std::copy_n(rounded, n_columns, weight->numbers.get() + row * stride + source * padded);
  });
  return Int8Weight::Pack(weight, w, stride);
}

void RunInt8(const RowsByWeight& args, const PackedWeight& w, int n_threads) {
  Int8Rows rows(args, w.n_inner);
  const std::vector<std::int64_t> block_offsets = PanelOffsets(rows.stride, kInt8Inner);
  const std::int64_t n_panels = Ceiling(w.n_rows, kBf16Width);
  const Tasks tasks = {Ceiling(args.n_rows, kTile), Ceiling(n_panels, kPanelsPerTask)};
#pragma omp parallel num_threads(n_threads) if (n_threads > 1)
  {
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < RoundUp(args.n_rows, kBf16Rows); ++row) rows.Round(row);
    const Int8Kernels kernels(Int8Weights::kInPanels);
    RunTasks(tasks, [&](std::int64_t task, std::int64_t group) {
      const std::int64_t row = task * kTile;
      const std::int64_t p = group * kPanelsPerTask;
      const std::int64_t n = std::min(kTile, args.n_rows - row);
      alignas(64) TileSums sums;
      kernels.Run({.n_blocks = std::ssize(block_offsets),
                   .n_rows = RoundUp(n, kBf16Rows),
                   .n_panels = std::min(kPanelsPerTask, n_panels - p),
                   .a = rows.numbers.get() + row * rows.stride,
                   .a_stride = rows.stride,
                   .b = BytesOf(w.int8) + p * w.stride,
                   .block_offsets = block_offsets.data(),
                   .b_stride = kGroup * kBf16Width,
                   .panel_stride = w.stride,
                   .c = sums.data(),
                   .c_stride = kTile});
      StoreProducts(sums,
                    {.row_terms = rows.zero_points.data() + row,
                     .row_scales = rows.scales.data() + row,
                     .column_terms = w.sums + p * kBf16Width,
                     .column_scales = w.scales + p * kBf16Width},
                    n, w.n_rows - p * kBf16Width, args.c + row * args.c_stride + p * kBf16Width,
                    args.c_stride);
    });
  }
}

void RunInt8(const WeightByColumns& args, const PackedWeight& w, int n_threads) {
  Int8Columns columns(args, w.n_inner / static_cast<std::int64_t>(args.sources.size()));
  const std::vector<std::int64_t> block_offsets = columns.BlockOffsets();
  const std::int64_t n_panels = Ceiling(args.n_columns, kBf16Width);
  const Tasks tasks = {Ceiling(n_panels, kPanelsPerTask), Ceiling(w.n_rows, kTile)};
#pragma omp parallel num_threads(n_threads) if (n_threads > 1)
  {
    columns.Pack();
    const Int8Kernels kernels(Int8Weights::kInRows);
    RunTasks(tasks, [&](std::int64_t group, std::int64_t task) {
      const std::int64_t row = task * kTile;
      const std::int64_t p = group * kPanelsPerTask;
      const std::int64_t n = std::min(kTile, w.n_rows - row);
      const SourceRange range = SourcesAt(args, p * kBf16Width, kTile);
      const std::int64_t first_block = range.begin * columns.blocks_of_source();
      alignas(64) TileSums sums;
      kernels.Run({.n_blocks = range.count * columns.blocks_of_source(),
                   .n_rows = RoundUp(n, kBf16Rows),
                   .n_panels = std::min(kPanelsPerTask, n_panels - p),
                   .a = BytesOf(w.int8) + row * w.stride + first_block * kInt8Inner,
                   .a_stride = w.stride,
                   .b = columns.data() + kGroup * p * kBf16Width,
                   .block_offsets = block_offsets.data() + first_block,
                   .b_stride = columns.stride(),
                   .panel_stride = kGroup * kBf16Width,
                   .c = sums.data(),
                   .c_stride = kTile});
      StoreProducts(sums,
                    {.row_terms = SumsOf(w, range, row).data(),
                     .row_scales = w.scales + row,
                     .column_terms = columns.zero_points() + p * kBf16Width,
                     .column_scales = columns.scales() + p * kBf16Width},
                    n, args.n_columns - p * kBf16Width,
                    args.c + row * args.c_stride + p * kBf16Width, args.c_stride);
    });
  }
}

}  // namespace dp_bench::policy
