#include "compare/real_rate.h"

#include <algorithm>
#include <cmath>

#include "dp_bench/error.h"

namespace dp_bench::compare {

RealRate BoundRealRate(const PairCounts& counts, int n_success, int n) {
  DPB_ASSERT(counts.n() > 0 && n >= counts.n());
  RealRate result = {.counts = counts,
                     .real_alone = ClopperPearsonInterval(counts.n_success_b(), counts.n()),
                     .simulated = WilsonInterval(n_success, n)};
  const RateInterval weight = ClopperPearsonInterval(n_success, n);
  const RateInterval if_success = ClopperPearsonInterval(counts.both_succeed, counts.n_success_a());
  const RateInterval if_failure =
      ClopperPearsonInterval(counts.only_b, counts.n() - counts.n_success_a());
  // without such a pair, any rate between 0 and 1
  const double p = if_success.n > 0 ? if_success.rate : 0.5;
  const double q = if_failure.n > 0 ? if_failure.rate : 0.5;
  const double w = weight.rate;
  result.rate = w * p + (1.0 - w) * q;
  // the derivative to the weight is p - q
  const double less = p > q ? w - weight.low : weight.high - w;
  const double more = p > q ? weight.high - w : w - weight.low;
  result.low = result.rate - std::hypot(w * (p - if_success.low), (1.0 - w) * (q - if_failure.low),
                                        (p - q) * less);
  result.high = result.rate + std::hypot(w * (if_success.high - p),
                                         (1.0 - w) * (if_failure.high - q), (p - q) * more);
  result.low = std::max(0.0, result.low);
  result.high = std::min(1.0, result.high);
  const double gain = (result.real_alone.high - result.real_alone.low) / (result.high - result.low);
  result.n_equivalent = counts.n() * gain * gain;
  return result;
}

std::optional<RealRate> BoundRealRate(const run::RunFolder& simulated, const run::RunFolder& real) {
  const PairedOutcomes outcomes = PairBySeed(simulated.episodes, real.episodes);
  if (outcomes.counts.n() == 0) return std::nullopt;
  const run::SplitSummary test = run::Summarize(simulated.episodes, "test");
  RealRate result = BoundRealRate(outcomes.counts, test.n_success, test.n_episodes);
  result.n_unpaired = static_cast<int>(outcomes.only_in_b.size());
  return result;
}

}  // namespace dp_bench::compare
