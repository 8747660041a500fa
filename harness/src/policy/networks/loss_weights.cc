// See loss_weights.h.
#include "policy/networks/loss_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/errors.h"
#include "dp_bench/config_keys.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

[[noreturn]] void ThrowExpected(const Config& params, const char* key, const std::string& wanted) {
  throw ConfigError("{}: expected {}", params.Where(key), wanted);
}

void RequireWeights(const Config& params, const char* key, const std::vector<double>& weights,
                    std::int64_t n, const char* one_per) {
  if (std::ssize(weights) != n) {
    ThrowExpected(params, key,
                  fmt::format("{} numbers, one per {}, found {}", n, one_per, weights.size()));
  }
  const bool is_negative = std::ranges::any_of(weights, [](double weight) { return weight < 0.0; });
  if (is_negative || std::accumulate(weights.begin(), weights.end(), 0.0) <= 0.0) {
    ThrowExpected(params, key, "non-negative numbers, at least one greater than 0");
  }
}

// The weight of the error of the prediction, if that of x_0 counts `of_x_0`. Salimans & Ho 2022,
// Sec. 4: |x_0 error|^2 is |epsilon error|^2 / SNR and |v error|^2 / (SNR + 1).
double WeightOf(PredictionType type, double of_x_0, double snr) {
  switch (type) {
    case PredictionType::kEpsilon:
      return of_x_0 / snr;
    case PredictionType::kSample:
      return of_x_0;
    case PredictionType::kVPrediction:
      return of_x_0 / (snr + 1.0);
  }
  throw InternalError("unknown prediction_type");
}

}  // namespace

Tensor ReadChunkWeights(const Config& params, std::int64_t horizon) {
  const bool has_list = params.Has("loss_chunk_weights");
  const bool has_decay = params.Has("loss_chunk_decay");
  if (has_list && has_decay) {
    ThrowExpected(params, "loss_chunk_weights", "either this or loss_chunk_decay, found both");
  }
  if (!has_list && !has_decay) return {};
  std::vector<double> weights(static_cast<std::size_t>(horizon));
  if (has_decay) {
    const double decay = params.GetInRange("loss_chunk_decay", 1.0, 1e-3, 1.0,
                                           "d, for weights d^t in place of loss_chunk_weights");
    for (std::size_t t = 0; t < weights.size(); ++t) {
      weights[t] = std::pow(decay, static_cast<double>(t));
    }
  } else {
    weights = params.Require<std::vector<double>>(
        "loss_chunk_weights",
        "T numbers that weigh the predicted steps in the loss; scaled to mean 1");
  }
  RequireWeights(params, "loss_chunk_weights", weights, horizon, "step of the horizon");
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const Tensor column = torch::tensor(weights, torch::kFloat64).unsqueeze(1);
  return (column * (static_cast<double>(horizon) / sum)).to(torch::kFloat32);
}

TimestepWeighting TimestepWeighting::FromConfig(const Config& params) {
  TimestepWeighting weighting;
  weighting.kind = params.GetChoice(
      "loss_weighting", {"none", "min_snr", "snr", "table"},
      "weight of a row in the loss by its timestep of the diffusion; min_snr: the error of the "
      "predicted action counts min(SNR, snr_gamma); snr: it counts SNR");
  const ConfigKeys keys(params);
  keys("snr_gamma", &weighting.snr_gamma, 1e-6, 1e6,
       "min_snr only: gamma of Min-SNR (Hang et al. 2023)");
  const auto table = params.GetOptional<std::vector<double>>(
      "loss_weighting_table",
      "loss_weighting table only: num_train_timesteps numbers, the weight of each timestep of the "
      "diffusion, used as they are");
  if (table && weighting.kind != "table") {
    ThrowExpected(
        params, "loss_weighting_table",
        fmt::format("this only with loss_weighting table, found it with {}", weighting.kind));
  }
  weighting.table = table.value_or(std::vector<double>());
  return weighting;
}

Tensor ReadTimestepWeights(const Config& params, const NoiseScheduler& scheduler) {
  const TimestepWeighting weighting = TimestepWeighting::FromConfig(params);
  if (weighting.kind == "none") return {};
  const std::vector<double>& alphas_cumprod = scheduler.alphas_cumprod();
  if (weighting.kind == "table") {
    RequireWeights(params, "loss_weighting_table", weighting.table, std::ssize(alphas_cumprod),
                   "training timestep");
    return torch::tensor(weighting.table, torch::kFloat32);
  }
  const double limit =
      weighting.kind == "min_snr" ? weighting.snr_gamma : std::numeric_limits<double>::infinity();
  std::vector<double> weights;
  for (const double alpha_bar : alphas_cumprod) {
    const double snr = alpha_bar / (1.0 - alpha_bar);
    weights.push_back(WeightOf(scheduler.config().prediction_type, std::min(snr, limit), snr));
  }
  return torch::tensor(weights, torch::kFloat32);
}

}  // namespace dp_bench::policy
