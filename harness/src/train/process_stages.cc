#include "train/process_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace dp_bench::train {

namespace {

constexpr double kMinSignal = 0.5;  // alphas_cumprod

/// Sums of values, which ranks can add up.
struct RangeSums {
  double n = 0.0;
  double sum = 0.0;
  double squares = 0.0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
};

constexpr std::size_t kNumbers = 5;  // of RangeSums

RangeSums SumsOf(const torch::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0) return {};
  const torch::Tensor x = tensor.to(torch::kFloat64);
  return {.n = static_cast<double>(x.numel()),
          .sum = x.sum().item<double>(),
          .squares = x.square().sum().item<double>(),
          .min = x.min().item<double>(),
          .max = x.max().item<double>()};
}

// Over all ranks, in one message.
std::vector<RangeSums> Combined(const std::vector<RangeSums>& own, const DataParallel& parallel) {
  std::vector<std::int64_t> message;
  for (const RangeSums& sums : own) {
    for (const double x : {sums.n, sums.sum, sums.squares, sums.min, sums.max}) {
      message.push_back(std::bit_cast<std::int64_t>(x));
    }
  }
  const std::vector<std::int64_t> all = parallel.Concatenate(message);
  std::vector<RangeSums> combined(own.size());
  for (std::size_t i = 0; i * kNumbers < all.size(); ++i) {
    std::array<double, kNumbers> x = {};
    for (std::size_t k = 0; k < kNumbers; ++k) x[k] = std::bit_cast<double>(all[i * kNumbers + k]);
    RangeSums& sums = combined[i % own.size()];
    sums.n += x[0];
    sums.sum += x[1];
    sums.squares += x[2];
    sums.min = std::min(sums.min, x[3]);
    sums.max = std::max(sums.max, x[4]);
  }
  return combined;
}

void AddRange(const std::string& name, const RangeSums& sums, std::map<std::string, double>* out) {
  if (sums.n == 0.0) return;
  const bool is_finite = std::isfinite(sums.sum) && std::isfinite(sums.squares);
  const auto add = [&](const char* what, double value) {
    (*out)[fmt::format("{}_{}", name, what)] =
        is_finite ? value : std::numeric_limits<double>::quiet_NaN();
  };
  const double mean = sums.sum / sums.n;
  add("min", sums.min);
  add("max", sums.max);
  add("mean", mean);
  add("std", std::sqrt(std::max(0.0, sums.squares / sums.n - mean * mean)));
}

std::optional<PredictionType> PredictionTypeOf(std::string_view stage) {
  if (stage == "predicted noise") return PredictionType::kEpsilon;
  if (stage == "predicted action") return PredictionType::kSample;
  if (stage == "predicted velocity") return PredictionType::kVPrediction;
  return std::nullopt;
}

double NumberOf(const torch::Tensor& scalar) { return scalar.to(torch::kFloat64).item<double>(); }

torch::Tensor CopyOnHost(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kCPU, torch::kFloat32, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

void ProcessStages::Note(std::string_view stage, const torch::Tensor& tensor) {
  const auto keep = [&](torch::Tensor* copy) {
    *copy = tensor.detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
  };
  if (stage == "normalized action") keep(&x_0);
  if (stage == "noise") keep(&noise);
  if (stage == "timesteps") keep(&timesteps);
  if (stage == "noisy action") keep(&x_t);
  if (stage == "condition") keep(&condition);
  if (stage == "betas") keep(&betas);
  if (stage == "alphas_cumprod") keep(&alphas_cumprod);
  if (stage == "network output") output_type = tensor.scalar_type();
  if (!stage.starts_with("predicted")) return;
  keep(&prediction);
  prediction_type = PredictionTypeOf(stage);
}

bool ProcessStages::is_complete() const {
  return x_0.defined() && noise.defined() && timesteps.defined() && x_t.defined() &&
         prediction.defined();
}

torch::Tensor PredictedX0(const ProcessStages& stages) {
  if (!stages.is_complete() || !stages.alphas_cumprod.defined() || !stages.prediction_type) {
    return {};
  }
  // a table that is too short belongs to another process
  if (stages.timesteps.max().item<std::int64_t>() >= stages.alphas_cumprod.numel()) return {};
  const torch::Tensor by_row = stages.alphas_cumprod.index_select(0, stages.timesteps);
  const torch::Tensor rows = by_row.ge(kMinSignal).nonzero().flatten();
  if (rows.numel() == 0) return {};
  const torch::Tensor alpha_bar = by_row.index_select(0, rows).view({-1, 1, 1});
  const torch::Tensor signal = alpha_bar.sqrt();
  const torch::Tensor spread = (1.0 - alpha_bar).sqrt();
  const torch::Tensor x_t = stages.x_t.index_select(0, rows);
  torch::Tensor output = stages.prediction.index_select(0, rows);
  switch (*stages.prediction_type) {
    case PredictionType::kEpsilon:
      return (x_t - spread * output) / signal;
    case PredictionType::kSample:
      return output;
    case PredictionType::kVPrediction:
      return signal * x_t - spread * output;
  }
  return {};
}

std::map<std::string, double> RangesOf(const NamedTensors& tensors, const DataParallel& parallel) {
  std::vector<RangeSums> own;
  for (const auto& [name, tensor] : tensors) own.push_back(SumsOf(tensor));
  const std::vector<RangeSums> sums = Combined(own, parallel);
  std::map<std::string, double> ranges;
  for (std::size_t i = 0; i < tensors.size(); ++i) AddRange(tensors[i].first, sums[i], &ranges);
  return ranges;
}

std::map<std::string, double> ProcessRanges(const ProcessStages& stages,
                                            const DataParallel& parallel) {
  return RangesOf({{"x0", stages.x_0},
                   {"noise", stages.noise},
                   {"xt", stages.x_t},
                   {"predicted_x0", PredictedX0(stages)},
                   {"condition", stages.condition},
                   {"output", stages.prediction},
                   {"t", stages.timesteps}},
                  parallel);
}

void SamplingTrace::Note(std::string_view stage, const torch::Tensor& tensor) {
  if (stage == "noise") samples_ = {CopyOnHost(tensor)};
  if (stage == "timestep") next_.timestep = tensor.item<double>();
  if (stage == "clipped values") next_.n_clipped = tensor.item<std::int64_t>();
  if (stage == "denoised action") {
    const torch::Tensor x_0 = CopyOnHost(tensor);
    next_.x_0_min = NumberOf(x_0.min());
    next_.x_0_max = NumberOf(x_0.max());
    next_.x_0_std = NumberOf(x_0.std(/*unbiased=*/false));
    if (x_0_.defined()) next_.x_0_change = NumberOf((x_0 - x_0_).square().mean().sqrt());
    next_.n_values = x_0.numel();
    x_0_ = x_0;
  }
  if (stage != "sample") return;
  const torch::Tensor sample = CopyOnHost(tensor);
  next_.min = NumberOf(sample.min());
  next_.max = NumberOf(sample.max());
  next_.mean = NumberOf(sample.mean());
  next_.std = NumberOf(sample.std(/*unbiased=*/false));
  samples_.push_back(sample);
  steps_.push_back(std::exchange(next_, {}));
}

SamplingStep ClippedInAll(const std::vector<SamplingStep>& steps) {
  SamplingStep all;
  for (const SamplingStep& step : steps) {
    all.n_clipped += step.n_clipped;
    all.n_values += step.n_values;
  }
  return all;
}

}  // namespace dp_bench::train
