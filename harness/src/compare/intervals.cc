// E. B. Wilson, JASA 22 (1927) 209; C. Clopper and E. Pearson, Biometrika 26 (1934) 404; "Student",
// Biometrika 6 (1908) 1. Quantiles come from Boost.Math.
#include "compare/intervals.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "dp_bench/error.h"

namespace dp_bench::compare {
namespace {

RateInterval WithoutBounds(int n_success, int n, double confidence) {
  DPB_ASSERT(n >= 0 && n_success >= 0 && n_success <= n);
  DPB_ASSERT(confidence > 0.0 && confidence < 1.0);
  return {.n_success = n_success, .n = n, .rate = n > 0 ? static_cast<double>(n_success) / n : 0.0};
}

using Binomial = boost::math::binomial;

// The correlation between two runs over the seeds (phi), shrunk by Newcombe's continuity correction
// if it is positive.
double CorrectedCorrelation(const PairCounts& counts) {
  const double n = counts.n();
  const double a = counts.n_success_a();
  const double b = counts.n_success_b();
  const double spread = std::sqrt(a * (n - a) * b * (n - b));
  if (spread == 0.0) return 0.0;
  const double product = static_cast<double>(counts.both_succeed) * counts.neither -
                         static_cast<double>(counts.only_a) * counts.only_b;
  if (product <= 0.0) return product / spread;
  return std::max(0.0, product - n / 2.0) / spread;
}

// The third side of a triangle: combines the two margins with the runs' correlation.
double Combine(double margin_a, double margin_b, double correlation) {
  const double square =
      margin_a * margin_a - 2.0 * correlation * margin_a * margin_b + margin_b * margin_b;
  return std::sqrt(std::max(0.0, square));
}

// From the bounds of the two rates (Newcombe's method 10).
DifferenceInterval IntervalAround(double difference, const RateInterval& a, const RateInterval& b,
                                  double correlation) {
  const double below = Combine(b.rate - b.low, a.high - a.rate, correlation);
  const double above = Combine(b.high - b.rate, a.rate - a.low, correlation);
  return {.difference = difference,
          .low = std::max(-1.0, difference - below),
          .high = std::min(1.0, difference + above)};
}

// The one-sided mid-p value: P[Bin(n, 1/2) >= k] minus half of P[= k].
double UpperMidP(int n, int k) {
  const Binomial half(n, 0.5);
  const double above = k < n ? cdf(complement(half, k)) : 0.0;
  return above + 0.5 * pdf(half, k);
}

// How many of n discordant seeds one side must win for the mid-p test to be significant; n + 1 if
// no number is enough. Grows by 0 or 1 with n, and is called with increasing n.
class CriticalWins {
 public:
  explicit CriticalWins(double alpha) : alpha_(alpha) {}

  int operator()(int n) {
    while (static_cast<int>(wins_.size()) <= n) {
      const auto next = static_cast<int>(wins_.size());
      int wins = wins_.empty() ? 1 : wins_.back();
      while (wins <= next && UpperMidP(next, wins) > alpha_) ++wins;
      wins_.push_back(wins);
    }
    return wins_[static_cast<std::size_t>(n)];
  }

 private:
  double alpha_;
  std::vector<int> wins_;
};

// The number of discordant seeds among n is binomial, and so is the number of wins among those.
double Power(const PowerQuestion& question, int n, CriticalWins* critical_wins) {
  constexpr double kNegligible = 1e-13;
  const double share_won = (1.0 + question.difference / question.discordant_rate) / 2.0;
  const Binomial discordant(n, question.discordant_rate);
  const auto middle = static_cast<int>(n * question.discordant_rate);
  double power = 0.0;
  const auto add = [&](int n_discordant) {
    const double weight = pdf(discordant, n_discordant);
    const int wins = (*critical_wins)(n_discordant);
    if (wins <= n_discordant) {
      power += weight * cdf(complement(Binomial(n_discordant, std::min(share_won, 1.0)), wins - 1));
    }
    return weight > kNegligible;
  };
  for (int m = middle; m <= n && add(m); ++m) {
  }
  for (int m = middle - 1; m >= 0 && add(m); --m) {
  }
  return power;
}

}  // namespace

RateInterval WilsonInterval(int n_success, int n, double confidence) {
  const RateInterval counts = WithoutBounds(n_success, n, confidence);
  RateInterval interval = WilsonIntervalOf(counts.rate, n, confidence);
  interval.n_success = n_success;
  return interval;
}

RateInterval WilsonIntervalOf(double rate, int n, double confidence) {
  RateInterval interval = {.n = n, .rate = rate};
  if (n == 0) return interval;
  const double z = boost::math::quantile(boost::math::normal(), 0.5 + confidence / 2.0);
  const double shrink = 1.0 + z * z / n;
  const double centre = (rate + z * z / (2.0 * n)) / shrink;
  const double half = z / shrink * std::sqrt(rate * (1.0 - rate) / n + z * z / (4.0 * n * n));
  // at the ends the formula gives 0 and 1, apart from rounding
  interval.low = rate == 0.0 ? 0.0 : std::max(0.0, centre - half);
  interval.high = rate == 1.0 ? 1.0 : std::min(1.0, centre + half);
  return interval;
}

RateInterval ClopperPearsonInterval(int n_success, int n, double confidence) {
  RateInterval interval = WithoutBounds(n_success, n, confidence);
  if (n == 0) return interval;
  const double tail = (1.0 - confidence) / 2.0;
  interval.low = Binomial::find_lower_bound_on_p(n, n_success, tail);
  interval.high = Binomial::find_upper_bound_on_p(n, n_success, tail);
  return interval;
}

RateInterval AnytimeInterval(int n_success, int n) {
  RateInterval interval = WithoutBounds(n_success, n, kConfidence);
  if (n == 0) return interval;
  const double k = n_success;
  const double m = n - n_success;
  const auto log_beta = [](double a, double b) {
    return std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b);
  };
  const double mixture = log_beta(k + 0.5, m + 0.5) - log_beta(0.5, 0.5);
  const double limit = -std::log(1.0 - kConfidence);
  // the evidence of the outcomes against the rate p, whose logarithm is convex in p
  const auto is_refuted = [&](double p) {
    const double likelihood =
        (k > 0.0 ? k * std::log(p) : 0.0) + (m > 0.0 ? m * std::log1p(-p) : 0.0);
    return mixture - likelihood >= limit;
  };
  const auto bound = [&](double refuted, double accepted) {
    for (int i = 0; i < 60; ++i) {
      const double middle = 0.5 * (refuted + accepted);
      (is_refuted(middle) ? refuted : accepted) = middle;
    }
    return accepted;
  };
  interval.low = n_success == 0 ? 0.0 : bound(0.0, interval.rate);
  interval.high = n_success == n ? 1.0 : bound(1.0, interval.rate);
  return interval;
}

MeanInterval StudentInterval(std::span<const double> values, double confidence,
                             double std_dev_if_equal) {
  DPB_ASSERT(!values.empty() && confidence > 0.0 && confidence < 1.0);
  const auto n = static_cast<double>(values.size());
  MeanInterval result = {.n = static_cast<int>(values.size())};
  for (const double value : values) result.mean += value / n;
  if (values.size() == 1) {
    result.low = -std::numeric_limits<double>::infinity();
    result.high = std::numeric_limits<double>::infinity();
    return result;
  }

  double squares = 0.0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.std_dev = std::sqrt(squares / (n - 1.0));
  const double t = boost::math::quantile(boost::math::students_t(n - 1.0), 0.5 + confidence / 2.0);
  const double spread = result.std_dev > 0.0 ? result.std_dev : std_dev_if_equal;
  const double half = t * spread / std::sqrt(n);
  result.low = result.mean - half;
  result.high = result.mean + half;
  return result;
}

MeanInterval WelchInterval(std::span<const double> a, std::span<const double> b) {
  const MeanInterval of_a = StudentInterval(a);
  const MeanInterval of_b = StudentInterval(b);
  MeanInterval result = {.n = std::min(of_a.n, of_b.n), .mean = of_b.mean - of_a.mean};
  if (result.n < 2) {
    result.low = -std::numeric_limits<double>::infinity();
    result.high = std::numeric_limits<double>::infinity();
    return result;
  }
  const double error_a = of_a.std_dev * of_a.std_dev / of_a.n;
  const double error_b = of_b.std_dev * of_b.std_dev / of_b.n;
  const double error = error_a + error_b;
  result.std_dev = std::sqrt(error);
  result.low = result.high = result.mean;
  if (error == 0.0) return result;
  const double freedom =
      error * error / (error_a * error_a / (of_a.n - 1) + error_b * error_b / (of_b.n - 1));
  const double half = result.std_dev * boost::math::quantile(boost::math::students_t(freedom),
                                                             0.5 + kConfidence / 2.0);
  result.low -= half;
  result.high += half;
  return result;
}

DifferenceInterval NewcombePairedInterval(const PairCounts& counts, double confidence) {
  const int n = counts.n();
  if (n == 0) return {};
  return IntervalAround(static_cast<double>(counts.only_b - counts.only_a) / n,
                        WilsonInterval(counts.n_success_a(), n, confidence),
                        WilsonInterval(counts.n_success_b(), n, confidence),
                        CorrectedCorrelation(counts));
}

DifferenceInterval NewcombeInterval(const RateInterval& a, const RateInterval& b) {
  if (a.n == 0 || b.n == 0) return {};
  return IntervalAround(b.rate - a.rate, a, b, 0.0);
}

double FisherExactP(const RateInterval& a, const RateInterval& b) {
  constexpr double kTie = 1e-7;  // equal probabilities differ by rounding
  const int n_success = a.n_success + b.n_success;
  const int least = std::max(0, a.n_success - (b.n - b.n_success));
  const int most = std::min(a.n, n_success);
  // ln of the probability of a table, up to a constant, from that of the one before: thousands of
  // hypergeometric probabilities would take seconds
  std::vector<double> log_probability = {0.0};
  for (int k = least; k < most; ++k) {
    const double ratio = static_cast<double>(n_success - k) * (a.n - k) /
                         (static_cast<double>(k + 1) * (b.n - n_success + k + 1));
    log_probability.push_back(log_probability.back() + std::log(ratio));
  }
  const double largest = *std::ranges::max_element(log_probability);
  const double observed = log_probability[static_cast<std::size_t>(a.n_success - least)];
  double total = 0.0;
  double p = 0.0;
  for (const double value : log_probability) {
    total += std::exp(value - largest);
    if (value <= observed + kTie) p += std::exp(value - largest);
  }
  return std::min(1.0, p / total);
}

double McNemarExactP(const PairCounts& counts) {
  const int n = counts.n_discordant();
  if (n == 0) return 1.0;
  return std::min(1.0, 2.0 * cdf(Binomial(n, 0.5), std::min(counts.only_a, counts.only_b)));
}

double McNemarMidP(const PairCounts& counts) {
  const int n = counts.n_discordant();
  if (n == 0) return 1.0;
  return std::min(1.0, 2.0 * UpperMidP(n, std::max(counts.only_a, counts.only_b)));
}

std::vector<double> HolmAdjusted(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t i, std::size_t j) { return p_values[i] < p_values[j]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0.0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const auto n_left = static_cast<double>(order.size() - rank);
    largest = std::max(largest, std::min(1.0, n_left * p_values[order[rank]]));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

std::optional<int> PairsToDetect(const PowerQuestion& question) {
  const double d = question.difference;
  const double discordant = question.discordant_rate;
  DPB_ASSERT(d > 0.0 && d <= discordant && discordant <= 1.0);
  DPB_ASSERT(question.alpha > 0.0 && question.alpha < 0.5);
  DPB_ASSERT(question.power > 0.5 && question.power < 1.0);

  // the normal approximation is off by at most a few per cent and a few pairs
  const boost::math::normal normal;
  const double root = quantile(complement(normal, question.alpha)) * std::sqrt(discordant) +
                      quantile(normal, question.power) * std::sqrt(discordant - d * d);
  const double approximate = root * root / (d * d);
  if (approximate > kMaxPairsToDetect) return std::nullopt;

  CriticalWins critical_wins(question.alpha);
  int too_few = 0;
  int enough = static_cast<int>(1.3 * approximate) + 40;
  DPB_ASSERT(Power(question, enough, &critical_wins) >= question.power);
  while (enough - too_few > 1) {
    const int n = too_few + (enough - too_few) / 2;
    const bool suffices = Power(question, n, &critical_wins) >= question.power;
    (suffices ? enough : too_few) = n;
  }
  return enough;
}

namespace {

// For a test whose statistic has these standard deviations with one episode, if the rates do not
// differ and if they do.
std::optional<int> EpisodesFor(double difference, double deviation_if_equal, double deviation) {
  const boost::math::normal normal;
  const double root =
      quantile(complement(normal, 0.025)) * deviation_if_equal + quantile(normal, 0.8) * deviation;
  const double n = std::ceil(root * root / (difference * difference));
  if (!(n <= kMaxEpisodesToDetect)) return std::nullopt;
  return static_cast<int>(n);
}

double Variance(double rate) { return rate * (1.0 - rate); }

}  // namespace

std::optional<int> EpisodesToDetect(double rate, double other) {
  return EpisodesFor(rate - other, std::sqrt(2.0 * Variance((rate + other) / 2.0)),
                     std::sqrt(Variance(rate) + Variance(other)));
}

std::optional<int> EpisodesToDetectFrom(double known, double rate) {
  return EpisodesFor(rate - known, std::sqrt(Variance(known)), std::sqrt(Variance(rate)));
}

double EstimateDiscordantRate(const PairCounts& counts) {
  return (counts.n_discordant() + 1.0) / (counts.n() + 2.0);
}

}  // namespace dp_bench::compare
