#include "compare/best_of_runs.h"

#include <algorithm>
#include <numeric>

#include "core/random_streams.h"
#include "dp_bench/error.h"

namespace dp_bench::compare {
namespace {

constexpr int kResamples = 4000;

using Outcomes = std::span<const std::vector<std::uint8_t>>;

std::vector<double> RatesOf(Outcomes outcomes) {
  std::vector<double> rates;
  for (const std::vector<std::uint8_t>& run : outcomes) {
    rates.push_back(std::accumulate(run.begin(), run.end(), 0.0) / static_cast<double>(run.size()));
  }
  return rates;
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The spread of the rates about their mean that the choice of seeds alone produces.
double ExpectedSpread(Outcomes outcomes, const std::vector<double>& rates) {
  const std::size_t n = outcomes[0].size();
  const double mean_rate = Mean(rates);
  double squares = 0.0;
  for (std::size_t seed = 0; seed < n; ++seed) {
    double of_seed = 0.0;
    for (const auto& run : outcomes) of_seed += run[seed];
    of_seed /= static_cast<double>(outcomes.size());
    for (std::size_t i = 0; i < rates.size(); ++i) {
      const double residual = outcomes[i][seed] - of_seed - (rates[i] - mean_rate);
      squares += residual * residual;
    }
  }
  return squares / (static_cast<double>(n - 1) * static_cast<double>(n));
}

std::vector<double> ShrunkRates(Outcomes outcomes, const std::vector<double>& rates) {
  const double mean_rate = Mean(rates);
  double spread = 0.0;
  for (const double rate : rates) spread += (rate - mean_rate) * (rate - mean_rate);
  const double kept =
      spread > 0.0 ? std::max(0.0, 1.0 - ExpectedSpread(outcomes, rates) / spread) : 0.0;
  std::vector<double> shrunk;
  for (const double rate : rates) shrunk.push_back(mean_rate + kept * (rate - mean_rate));
  return shrunk;
}

// For each run, its rate on the resampled seeds minus its rate on all seeds.
std::vector<double> ResampledErrors(Outcomes outcomes, const std::vector<double>& rates,
                                    std::uint64_t resample) {
  const auto n = static_cast<std::uint32_t>(outcomes[0].size());
  RandomStream random(/*seed=*/0, core::kShuffleStream, resample);
  std::vector<int> successes(outcomes.size());
  for (std::uint32_t draw = 0; draw < n; ++draw) {
    const std::uint32_t seed = random.UniformInt(n);
    for (std::size_t i = 0; i < outcomes.size(); ++i) successes[i] += outcomes[i][seed];
  }
  std::vector<double> errors;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    errors.push_back(static_cast<double>(successes[i]) / n - rates[i]);
  }
  return errors;
}

}  // namespace

BestOfRuns JudgeBestOf(std::span<const std::vector<std::uint8_t>> outcomes) {
  DPB_ASSERT(outcomes.size() >= 2 && outcomes[0].size() >= 2);
  for (const auto& run : outcomes) DPB_ASSERT(run.size() == outcomes[0].size());
  const std::vector<double> rates = RatesOf(outcomes);
  const std::vector<double> truth = ShrunkRates(outcomes, rates);
  BestOfRuns result = {
      .best = static_cast<std::size_t>(std::ranges::max_element(rates) - rates.begin()),
      .n_seeds = static_cast<int>(outcomes[0].size())};
  for (int resample = 0; resample < kResamples; ++resample) {
    const std::vector<double> errors =
        ResampledErrors(outcomes, rates, static_cast<std::uint64_t>(resample));
    std::size_t chosen = 0;
    for (std::size_t i = 1; i < errors.size(); ++i) {
      if (truth[i] + errors[i] > truth[chosen] + errors[chosen]) chosen = i;
    }
    result.optimism += errors[chosen] / kResamples;
    result.bound += std::ranges::max(errors) / kResamples;
  }
  result.optimism = std::max(0.0, result.optimism);  // a bootstrap average may be below 0
  return result;
}

}  // namespace dp_bench::compare
