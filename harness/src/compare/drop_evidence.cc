#include "compare/drop_evidence.h"

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <numbers>

#include "dp_bench/error.h"

namespace dp_bench::compare {

namespace {

double LogFactorial(int n) { return boost::math::lgamma(n + 1.0); }

// The sum of C(n, j) / C(n, k) over j <= k, with n = k + other + 1. If k <= other, the terms
// decrease from 1.
double LowerTailOverLastTerm(int k, int other) {
  double term = 1.0;
  double sum = 1.0;
  for (int j = 1; j <= k && term > 1e-17 * sum; ++j) {
    term *= static_cast<double>(k - j + 1) / (other + 1 + j);
    sum += term;
  }
  return sum;
}

// The smallest margin D for which ln E >= `threshold` refutes "drop >= D"; E grows with D.
double SmallestRefutedMargin(const OutcomeCounts& counts, double threshold) {
  double low = -1.0;
  double high = 1.0;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2.0;
    const bool is_refuted = PassEvidence(middle).Log(counts) >= threshold;
    (is_refuted ? high : low) = middle;
  }
  return high;
}

}  // namespace

// With b lost, c gained and n = b + c + 1 the mixture over (1/2, 1) is
//   E = 2^n Beta(b + 1, c + 1) P[Bin(n, 1/2) <= b].
double LogFailEvidence(const OutcomeCounts& counts) {
  const int b = counts.n_lost;
  const int c = counts.n_gained;
  DPB_ASSERT(b >= 0 && c >= 0);
  // Beta(b + 1, c + 1) = 1 / ((c + 1) C(n, b)): the powers of two cancel
  if (b <= c) return std::log(LowerTailOverLastTerm(b, c) / (c + 1));

  // otherwise P is close to 1, and its complement P[Bin(n, 1/2) <= c] is exact
  const double n_ln_2 = (b + c + 1) * std::numbers::ln2;
  const double log_beta = LogFactorial(b) + LogFactorial(c) - LogFactorial(b + c + 1);
  const double complement =
      std::exp(-log_beta - std::log(b + 1.0) - n_ln_2) * LowerTailOverLastTerm(c, b);
  return n_ln_2 + log_beta + std::log1p(-complement);
}

// A bet l multiplies the wealth by 1 + l (x + D), where x is +1 for a gained seed, -1 for a lost
// one and 0 otherwise. The bets are spread evenly over those that cannot go bankrupt.
PassEvidence::PassEvidence(double margin) {
  DPB_ASSERT(margin > -1.0 && margin < 1.0);
  const auto n_bets = static_cast<double>(bets_.size());
  for (std::size_t k = 0; k < bets_.size(); ++k) {
    const double share = (static_cast<double>(k) + 0.5) / n_bets;  // as a share of the largest bet
    const double bet = share / (1.0 - margin);
    bets_[k] = {.on_lost = std::log1p(-share),
                .on_gained = std::log1p(bet * (1.0 + margin)),
                .on_same = std::log1p(bet * margin)};
  }
}

double PassEvidence::Log(const OutcomeCounts& counts) const {
  std::array<double, std::tuple_size_v<decltype(bets_)>> log_wealth;
  for (std::size_t k = 0; k < bets_.size(); ++k) {
    log_wealth[k] = counts.n_lost * bets_[k].on_lost + counts.n_gained * bets_[k].on_gained +
                    counts.n_same * bets_[k].on_same;
  }
  const double largest = *std::max_element(log_wealth.begin(), log_wealth.end());
  double sum = 0.0;
  for (const double value : log_wealth) sum += std::exp(value - largest);
  return largest + std::log(sum / static_cast<double>(bets_.size()));
}

DropInterval AnytimeDropInterval(const OutcomeCounts& counts, double confidence) {
  DPB_ASSERT(confidence > 0.0 && confidence < 1.0);
  DropInterval interval;
  if (counts.n_pairs() == 0) return interval;
  interval.drop = static_cast<double>(counts.n_lost - counts.n_gained) / counts.n_pairs();
  const double threshold = std::log(2.0 / (1.0 - confidence));  // half of the error on each side
  interval.high = SmallestRefutedMargin(counts, threshold);
  const OutcomeCounts reversed = {
      .n_lost = counts.n_gained, .n_gained = counts.n_lost, .n_same = counts.n_same};
  interval.low = -SmallestRefutedMargin(reversed, threshold);
  return interval;
}

double LogMeanEvidence(std::span<const double> log_evidence) {
  DPB_ASSERT(!log_evidence.empty());
  const double largest = *std::max_element(log_evidence.begin(), log_evidence.end());
  double sum = 0.0;
  for (const double value : log_evidence) sum += std::exp(value - largest);
  return largest + std::log(sum / static_cast<double>(log_evidence.size()));
}

std::vector<bool> NameDrops(std::span<const double> log_evidence, double alpha) {
  DPB_ASSERT(alpha > 0.0 && alpha < 1.0);
  std::vector<double> sorted(log_evidence.begin(), log_evidence.end());
  std::sort(sorted.rbegin(), sorted.rend());
  // the largest k whose k-th largest e-value reaches K / (k alpha): the first k tasks are named
  const auto n = static_cast<double>(sorted.size());
  double smallest_named = INFINITY;
  for (std::size_t k = 1; k <= sorted.size(); ++k) {
    const double threshold = std::log(n / static_cast<double>(k)) - std::log(alpha);
    if (sorted[k - 1] >= threshold) smallest_named = sorted[k - 1];
  }
  std::vector<bool> is_named;
  for (const double value : log_evidence) is_named.push_back(value >= smallest_named);
  return is_named;
}

}  // namespace dp_bench::compare
