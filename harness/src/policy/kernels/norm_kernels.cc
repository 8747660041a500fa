// See norm_kernels.h. A group of channels is processed in blocks of batch entries that fit the
// first-level cache: first the statistics, then all operations on an element while it is in a
// register.
#include "policy/kernels/norm_kernels.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "policy/kernels/vector_math.h"

namespace dp_bench::policy {
namespace {

constexpr std::int64_t kMaxLanes = 64;  // floats of one row processed at a time

// From this size on, a row is a part of the batch. Forward, the remainder of a row costs more than
// another pass over the group. Backward, the order of sums depends on it, so it stays.
constexpr std::int64_t kWideForward = kMaxLanes;
constexpr std::int64_t kWideBackward = 16;

// How the elements of one channel are visited. Wide batch: `n_rows` = T rows, in blocks of at most
// kMaxLanes batch entries. Narrow batch: a single row of T * B elements, so that vectors are still
// full; lanes that are B apart then belong to the same batch entry.
struct Lanes {
  std::int64_t n_rows;
  std::int64_t row_stride;
  std::int64_t steps_per_row;  // time steps within a row: 1 or T
  std::int64_t batch_begin;
  std::int64_t batch_width;
  std::int64_t width() const { return steps_per_row * batch_width; }
  bool is_narrow() const { return row_stride == 0; }
};

Lanes LanesOf(std::int64_t steps, std::int64_t batch, std::int64_t batch_begin, std::int64_t wide) {
  if (batch < wide) return {1, 0, steps, 0, batch};
  return {steps, batch, 1, batch_begin, std::min(kMaxLanes, batch - batch_begin)};
}

// How statistics are summed. From kFewRows on it is the order of a wide batch, so that the bits of
// a row do not depend on whether it is in a group of a batch or in the whole one.
constexpr std::int64_t kFewRows = 4;

Lanes LanesOfStatistics(const Lanes& lanes, std::int64_t steps) {
  if (!lanes.is_narrow() || lanes.batch_width < kFewRows) return lanes;
  return {steps, lanes.batch_width, 1, 0, lanes.batch_width};
}

std::int64_t BlockStep(std::int64_t batch, std::int64_t wide) {
  return batch < wide ? batch : kMaxLanes;
}

// Sums the lanes of each batch entry, multiplies by `factor`, and writes the result to all of its
// lanes.
void ShareOverTime(const Lanes& lanes, float factor, float* values) {
  for (std::int64_t b = 0; b < lanes.batch_width; ++b) {
    float sum = values[b];
    for (std::int64_t t = 1; t < lanes.steps_per_row; ++t) sum += values[t * lanes.batch_width + b];
    for (std::int64_t t = 0; t < lanes.steps_per_row; ++t) {
      values[t * lanes.batch_width + b] = sum * factor;
    }
  }
}

// values [batch_width] for every time step of a row; each copy doubles what is there.
void RepeatOverTime(const Lanes& lanes, float* values) {
  for (std::int64_t t = 1; t < lanes.steps_per_row; t *= 2) {
    const std::int64_t n = std::min(t, lanes.steps_per_row - t);
    std::copy_n(values, n * lanes.batch_width, values + t * lanes.batch_width);
  }
}

// The values of one row of a [C, B] or [n_groups, B] array, one per lane; `lane_values` is scratch
// space.
const float* ValuesOfLanes(const Lanes& lanes, const float* row, float* lane_values) {
  if (lanes.steps_per_row == 1) return row + lanes.batch_begin;
  if (lanes.batch_width == 1) {
    std::fill_n(lane_values, lanes.steps_per_row, *row);
    return lane_values;
  }
  std::copy_n(row, lanes.batch_width, lane_values);
  RepeatOverTime(lanes, lane_values);
  return lane_values;
}

// Adds the sum of each batch entry's lanes to that entry's element in a row of a [C, B] array.
void StoreSumOverTime(const Lanes& lanes, const float* values, float* row) {
  for (std::int64_t b = 0; b < lanes.batch_width; ++b) {
    float sum = values[b];
    for (std::int64_t t = 1; t < lanes.steps_per_row; ++t) sum += values[t * lanes.batch_width + b];
    row[lanes.batch_begin + b] = sum;
  }
}

float Sum(const float* values, std::int64_t n) {
  float sum = 0.0F;
  for (std::int64_t i = 0; i < n; ++i) sum += values[i];
  return sum;
}

// The rows of one channel of one block, as offsets into a [C, T, B] array.
DPB_ALWAYS_INLINE std::int64_t RowStart(const Lanes& lanes, std::int64_t channel_size,
                                        std::int64_t c, std::int64_t row) {
  return c * channel_size + lanes.batch_begin + row * lanes.row_stride;
}

// The channels of one group, and scratch rows.
struct Group {
  Group(std::int64_t channels, std::int64_t n_groups, std::int64_t steps, std::int64_t batch,
        std::int64_t index, std::int64_t n_rows, std::int64_t wide)
      : begin(index * (channels / n_groups)),
        end(begin + channels / n_groups),
        channel_size(steps * batch),
        inverse_count(1.0F / static_cast<float>((end - begin) * steps)),
        row_size(batch < wide ? steps * batch : kMaxLanes),
        rows(new float[static_cast<std::size_t>(n_rows * row_size)]) {}

  float* Row(std::int64_t i) { return rows.get() + i * row_size; }

  std::int64_t begin, end;    // channels
  std::int64_t channel_size;  // T * B
  float inverse_count;        // 1 / (channels of the group * T)
  std::int64_t row_size;
  std::unique_ptr<float[]> rows;  // not initialised
};

// No two pointers overlap in the row functions below. The compiler loses that fact after inlining
// and would check for overlap in every row, so the pragmas repeat it.
DPB_ALWAYS_INLINE void NormMishFilmRow(std::int64_t n, const float* __restrict x, float bias,
                                       float gamma, float beta, const float* __restrict mean,
                                       const float* __restrict rstd, const float* __restrict scale,
                                       const float* __restrict offset, float* __restrict y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const float normed = (x[i] + bias - mean[i]) * rstd[i] * gamma + beta;
    y[i] = Mish(normed) * scale[i] + offset[i];
  }
}

DPB_ALWAYS_INLINE void NormRow(std::int64_t n, const float* __restrict x, float bias, float gamma,
                               float beta, const float* __restrict mean,
                               const float* __restrict rstd, float* __restrict y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] + bias - mean[i]) * rstd[i] * gamma + beta;
}

DPB_ALWAYS_INLINE void MishRow(std::int64_t n, const float* x, float* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = Mish(x[i]);
}

DPB_ALWAYS_INLINE void FilmRow(std::int64_t n, const float* __restrict scale,
                               const float* __restrict offset, float* __restrict y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = y[i] * scale[i] + offset[i];
}

DPB_ALWAYS_INLINE void AddRow(std::int64_t n, const float* __restrict x, float* __restrict y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
}

// Sums that the backward pass collects per lane. The first two cover a group, the others a channel.
struct BackwardSums {
  float* __restrict d_xhat;
  float* __restrict d_xhat_xhat;
  float* __restrict d_gamma;
  float* __restrict d_beta;
  float* __restrict d_scale;
  float* __restrict d_offset;
};

// Backward through FiLM, Mish and the affine part: grad_x receives d loss / d xhat.
DPB_ALWAYS_INLINE void BackwardToXhatRow(std::int64_t n, const float* __restrict x, float bias,
                                         float gamma, float beta, const float* __restrict mean,
                                         const float* __restrict rstd,
                                         const float* __restrict scale,
                                         const float* __restrict grad_y, float* __restrict grad_x,
                                         const BackwardSums& sums) {
  float* __restrict d_xhat = sums.d_xhat;
  float* __restrict d_xhat_xhat = sums.d_xhat_xhat;
  float* __restrict d_gamma = sums.d_gamma;
  float* __restrict d_beta = sums.d_beta;
  float* __restrict d_scale = sums.d_scale;
  float* __restrict d_offset = sums.d_offset;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const float xhat = (x[i] + bias - mean[i]) * rstd[i];
    const ActivationValue mish = MishWithSlope(xhat * gamma + beta);
    d_offset[i] += grad_y[i];
    d_scale[i] += grad_y[i] * mish.value;
    const float grad_normed = grad_y[i] * scale[i] * mish.slope;
    d_gamma[i] += grad_normed * xhat;
    d_beta[i] += grad_normed;
    const float grad_xhat = grad_normed * gamma;
    d_xhat[i] += grad_xhat;
    d_xhat_xhat[i] += grad_xhat * xhat;
    grad_x[i] = grad_xhat;
  }
}

// Backward through the normalization, from the means of d xhat and d xhat * xhat; overwrites
// grad_x.
DPB_ALWAYS_INLINE void BackwardToXRow(std::int64_t n, const float* __restrict x, float bias,
                                      const float* __restrict mean, const float* __restrict rstd,
                                      const float* __restrict mean_d,
                                      const float* __restrict mean_dx, float* __restrict grad_x,
                                      float* __restrict sum) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const float xhat = (x[i] + bias - mean[i]) * rstd[i];
    const float grad = rstd[i] * (grad_x[i] - mean_d[i] - xhat * mean_dx[i]);
    grad_x[i] = grad;
    sum[i] += grad;
  }
}

// Sums term(x + bias, lane) over the channels and rows of a group, kWidth lanes at a time, whose
// sums stay in registers. The last lanes are summed with some before them, with the same result.
template <std::int64_t kWidth, class Term>
DPB_ALWAYS_INLINE void SumLanes(const NormForward& args, const Group& group, const Lanes& lanes,
                                const Term& term, float* to) {
  for (std::int64_t begin = 0; begin < lanes.width(); begin += kWidth) {
    const std::int64_t first = std::min(begin, lanes.width() - kWidth);
    float sums[kWidth] = {};
    for (std::int64_t c = group.begin; c < group.end; ++c) {
      const float bias = args.bias[c];
      const float* x = args.x + RowStart(lanes, group.channel_size, c, 0) + first;
      for (std::int64_t row = 0; row < lanes.n_rows; ++row, x += lanes.row_stride) {
        for (std::int64_t i = 0; i < kWidth; ++i) sums[i] += term(x[i] + bias, first + i);
      }
    }
    std::copy_n(sums, kWidth, to + first);
  }
}

template <class Term>
DPB_ALWAYS_INLINE void SumOverGroup(const NormForward& args, const Group& group, const Lanes& lanes,
                                    const Term& term, float* to) {
  const std::int64_t width = lanes.width();
  if (width >= 64) return SumLanes<64>(args, group, lanes, term, to);
  if (width >= 16) return SumLanes<16>(args, group, lanes, term, to);
  if (width >= 8) return SumLanes<8>(args, group, lanes, term, to);
  if (width >= 4) return SumLanes<4>(args, group, lanes, term, to);
  SumLanes<1>(args, group, lanes, term, to);
}

// Mean and 1 / std for every lane's batch entry, over the group's channels and time.
DPB_ALWAYS_INLINE void ComputeStatistics(const NormForward& args, const Group& group,
                                         const Lanes& lanes_of_row, float* mean, float* rstd) {
  const Lanes lanes = LanesOfStatistics(lanes_of_row, args.steps);
  const std::int64_t width = lanes.width();
  SumOverGroup(
      args, group, lanes, [](float biased, std::int64_t) { return biased; }, mean);
  ShareOverTime(lanes, group.inverse_count, mean);

  // the variance from centred values: the shortcut formula loses digits
  const auto square = [mean](float biased, std::int64_t lane) {
    const float centred = biased - mean[lane];
    return centred * centred;
  };
  SumOverGroup(args, group, lanes, square, rstd);
  ShareOverTime(lanes, group.inverse_count, rstd);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < width; ++i) rstd[i] = 1.0F / std::sqrt(rstd[i] + args.eps);
  if (lanes.steps_per_row == lanes_of_row.steps_per_row) return;
  RepeatOverTime(lanes_of_row, mean);
  RepeatOverTime(lanes_of_row, rstd);
}

// Per-channel inputs of the loops for one group, with ones and zeros for absent tensors.
struct FilmRows {
  const float* scale;
  const float* offset;
};

DPB_VECTOR_VERSIONS
void NormForwardGroup(const NormForward& args, std::int64_t index) {
  Group group(args.channels, args.n_groups, args.steps, args.batch, index, /*n_rows=*/6,
              kWideForward);
  float* mean = group.Row(0);
  float* rstd = group.Row(1);
  float* ones = group.Row(2);
  float* zeros = group.Row(3);
  std::fill_n(ones, group.row_size, 1.0F);
  std::fill_n(zeros, group.row_size, 0.0F);
  const auto film_of = [&](const Lanes& lanes, std::int64_t c) -> FilmRows {
    return {args.scale == nullptr ? ones
                                  : ValuesOfLanes(lanes, args.scale + c * args.batch, group.Row(4)),
            args.offset == nullptr
                ? zeros
                : ValuesOfLanes(lanes, args.offset + c * args.batch, group.Row(5))};
  };

  for (std::int64_t b = 0; b < args.batch; b += BlockStep(args.batch, kWideForward)) {
    const Lanes lanes = LanesOf(args.steps, args.batch, b, kWideForward);
    const std::int64_t width = lanes.width();
    ComputeStatistics(args, group, lanes, mean, rstd);
    std::copy_n(mean, lanes.batch_width, args.mean + index * args.batch + lanes.batch_begin);
    std::copy_n(rstd, lanes.batch_width, args.rstd + index * args.batch + lanes.batch_begin);

    for (std::int64_t c = group.begin; c < group.end; ++c) {
      if (lanes.is_narrow()) {
        const std::int64_t start = c * group.channel_size;
        NormRow(width, args.x + start, args.bias[c], args.gamma[c], args.beta[c], mean, rstd,
                args.y + start);
        continue;
      }
      const FilmRows film = film_of(lanes, c);
      for (std::int64_t row = 0; row < lanes.n_rows; ++row) {
        const std::int64_t start = RowStart(lanes, group.channel_size, c, row);
        NormMishFilmRow(width, args.x + start, args.bias[c], args.gamma[c], args.beta[c], mean,
                        rstd, film.scale, film.offset, args.y + start);
        if (args.residual != nullptr) AddRow(width, args.residual + start, args.y + start);
      }
    }
    if (!lanes.is_narrow()) continue;

    // rows are short here, but the group is contiguous, so Mish runs on all of it at once
    float* y = args.y + group.begin * group.channel_size;
    const std::int64_t n = (group.end - group.begin) * group.channel_size;
    MishRow(n, y, y);
    for (std::int64_t c = group.begin; c < group.end && args.offset != nullptr; ++c) {
      const FilmRows film = film_of(lanes, c);
      FilmRow(width, film.scale, film.offset, args.y + c * group.channel_size);
    }
    if (args.residual != nullptr) AddRow(n, args.residual + group.begin * group.channel_size, y);
  }
}

DPB_VECTOR_VERSIONS
void NormBackwardGroup(const NormBackward& args, std::int64_t index) {
  Group group(args.channels, args.n_groups, args.steps, args.batch, index, /*n_rows=*/10,
              kWideBackward);
  float* ones = group.Row(2);
  std::fill_n(ones, group.row_size, 1.0F);
  const BackwardSums sums = {group.Row(3), group.Row(4), group.Row(5),
                             group.Row(6), group.Row(7), group.Row(8)};
  for (std::int64_t c = group.begin; c < group.end; ++c) {
    args.grad_bias[c] = args.grad_gamma[c] = args.grad_beta[c] = 0.0F;
  }

  for (std::int64_t b = 0; b < args.batch; b += BlockStep(args.batch, kWideBackward)) {
    const Lanes lanes = LanesOf(args.steps, args.batch, b, kWideBackward);
    const std::int64_t width = lanes.width();
    const float* mean = ValuesOfLanes(lanes, args.mean + index * args.batch, group.Row(0));
    const float* rstd = ValuesOfLanes(lanes, args.rstd + index * args.batch, group.Row(1));
    std::fill_n(sums.d_xhat, width, 0.0F);
    std::fill_n(sums.d_xhat_xhat, width, 0.0F);

    for (std::int64_t c = group.begin; c < group.end; ++c) {
      const float* scale = args.scale == nullptr
                               ? ones
                               : ValuesOfLanes(lanes, args.scale + c * args.batch, group.Row(9));
      for (float* sum : {sums.d_gamma, sums.d_beta, sums.d_scale, sums.d_offset}) {
        std::fill_n(sum, width, 0.0F);
      }
      for (std::int64_t row = 0; row < lanes.n_rows; ++row) {
        const std::int64_t start = RowStart(lanes, group.channel_size, c, row);
        BackwardToXhatRow(width, args.x + start, args.bias[c], args.gamma[c], args.beta[c], mean,
                          rstd, scale, args.grad_y + start, args.grad_x + start, sums);
      }
      args.grad_gamma[c] += Sum(sums.d_gamma, width);
      args.grad_beta[c] += Sum(sums.d_beta, width);
      if (args.grad_scale != nullptr) {
        StoreSumOverTime(lanes, sums.d_scale, args.grad_scale + c * args.batch);
      }
      if (args.grad_offset != nullptr) {
        StoreSumOverTime(lanes, sums.d_offset, args.grad_offset + c * args.batch);
      }
    }

    ShareOverTime(lanes, group.inverse_count, sums.d_xhat);
    ShareOverTime(lanes, group.inverse_count, sums.d_xhat_xhat);
    for (std::int64_t c = group.begin; c < group.end; ++c) {
      std::fill_n(sums.d_beta, width, 0.0F);
      for (std::int64_t row = 0; row < lanes.n_rows; ++row) {
        const std::int64_t start = RowStart(lanes, group.channel_size, c, row);
        BackwardToXRow(width, args.x + start, args.bias[c], mean, rstd, sums.d_xhat,
                       sums.d_xhat_xhat, args.grad_x + start, sums.d_beta);
      }
      args.grad_bias[c] += Sum(sums.d_beta, width);
    }
  }
}

}  // namespace

void RunNormForward(const NormForward& args, int n_threads) {
  const int n = UsefulThreads(args.channels * args.steps * args.batch, n_threads);
#pragma omp parallel for num_threads(n) if (n > 1)
  for (std::int64_t group = 0; group < args.n_groups; ++group) NormForwardGroup(args, group);
}

void RunNormBackward(const NormBackward& args, int n_threads) {
  const int n = UsefulThreads(args.channels * args.steps * args.batch, n_threads);
#pragma omp parallel for num_threads(n) if (n > 1)
  for (std::int64_t group = 0; group < args.n_groups; ++group) NormBackwardGroup(args, group);
}

DPB_VECTOR_VERSIONS
void MishForward(std::int64_t n, const float* x, float* y) { MishRow(n, x, y); }

}  // namespace dp_bench::policy
