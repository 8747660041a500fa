// How far the truth may be from what a few episodes show: of one success rate, of a mean, and of
// the difference of two runs, with the tests of "no difference" and the seeds that they take.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compare/pairing.h"

namespace dp_bench::compare {

inline constexpr double kConfidence = 0.95;  // of all intervals

struct RateInterval {
  int n_success = 0;
  int n = 0;
  double rate = 0.0;  // n_success / n; 0 without episodes
  double low = 0.0;
  double high = 1.0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RateInterval, n_success, n, rate, low, high)

/// The score interval of Wilson (1927), which every report shows. It is correct on average even
/// near 0 and 1. Without episodes it is [0, 1].
RateInterval WilsonInterval(int n_success, int n, double confidence = kConfidence);

/// The same of a rate that need not be a number of successes by `n`, such as a mean of rates. The
/// result has no n_success.
RateInterval WilsonIntervalOf(double rate, int n, double confidence = kConfidence);

/// The exact interval of Clopper and Pearson (1934), for claims such as "at least". Its coverage is
/// never below `confidence`, so it is wider. Without episodes it is [0, 1].
RateInterval ClopperPearsonInterval(int n_success, int n, double confidence = kConfidence);

/// A 95 % interval that holds at every number of episodes at once, so one may look after each of
/// them: the confidence sequence of Robbins (1970) with the mixture Beta(1/2, 1/2). Wider than
/// Wilson's. Without episodes it is [0, 1].
RateInterval AnytimeInterval(int n_success, int n);

struct MeanInterval {
  int n = 0;
  double mean = 0.0;
  double std_dev = 0.0;  // of the values, with n - 1; 0 for one value
  double low = 0.0;
  double high = 0.0;
};

/// Student's interval (1908) for values that scatter about a mean, such as the success rates of
/// several training seeds. Needs at least one value; the interval of a single value is infinite.
///
/// Values that happen to be equal do not show that there is no spread: `std_dev_if_equal` is used
/// for the interval then, if something else tells how much they scatter. `std_dev` stays 0.
MeanInterval StudentInterval(std::span<const double> values, double confidence = kConfidence,
                             double std_dev_if_equal = 0.0);

/// Welch's interval (1947, 95 %) for the difference of two means, b minus a, of independent values.
/// Needs two values of each; the interval is infinite otherwise. `n` is the smaller number of
/// values, `std_dev` the standard error of the difference.
MeanInterval WelchInterval(std::span<const double> a, std::span<const double> b);

/// Success rate of B minus that of A, in [-1, 1].
struct DifferenceInterval {
  double difference = 0.0;
  double low = -1.0;
  double high = 1.0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DifferenceInterval, difference, low, high)

/// The interval of Newcombe (1998, "Improved confidence intervals for the difference between
/// binomial proportions based on paired data", method 10): the margins of two Wilson intervals are
/// added in squares, with the correlation between the runs. Without pairs it is [-1, 1].
DifferenceInterval NewcombePairedInterval(const PairCounts& counts,
                                          double confidence = kConfidence);

/// The same for two independent runs (Newcombe 1998, "Interval estimation for the difference
/// between independent proportions", method 10).
DifferenceInterval NewcombeInterval(const RateInterval& a, const RateInterval& b);

/// Fisher's exact test (1935) of "both succeed equally often" for two independent runs: two-sided,
/// the probability of all tables that are at most as likely as the observed one.
double FisherExactP(const RateInterval& a, const RateInterval& b);

/// McNemar's test (1947) of "both succeed equally often": two-sided, from the binomial distribution
/// of the discordant seeds. 1 without discordant seeds.
double McNemarExactP(const PairCounts& counts);

/// The same with half the probability of the observed outcome (Lancaster 1961). It is less
/// conservative, and close to its nominal level even for few discordant seeds (Fagerland et al.
/// 2013).
double McNemarMidP(const PairCounts& counts);

/// Holm's (1979) p-values for several tests at once, in the order given. Compare each with the
/// level that must hold for all tests together.
std::vector<double> HolmAdjusted(std::span<const double> p_values);

/// An assumption about the truth, to compute how many seeds would show it.
struct PowerQuestion {
  double difference = 0.05;      // of the success rates, in (0, 1]
  double discordant_rate = 0.2;  // share of seeds with different outcomes, at least `difference`
  double alpha = 0.05;           // one-sided level of the mid-p McNemar test
  double power = 0.8;            // probability that the test shows the difference
};

constexpr int kMaxPairsToDetect = 1'000'000;

/// The smallest number of shared seeds with that power, exact; nothing if it is more than
/// kMaxPairsToDetect.
std::optional<int> PairsToDetect(const PowerQuestion& question);

constexpr double kMaxEpisodesToDetect = 1e9;

/// The number of episodes of each of two independent runs that shows the difference of these rates
/// with power 80 % at the two-sided level 5 %, by the normal approximation (Fleiss 1981, formula
/// 3.14); nothing if it is more than kMaxEpisodesToDetect, as for equal rates.
std::optional<int> EpisodesToDetect(double rate, double other);

/// The same for a run against a rate that is known: its episodes alone.
std::optional<int> EpisodesToDetectFrom(double known, double rate);

/// For PowerQuestion: an estimate of the share of discordant seeds from `counts`. It uses the rule
/// of succession, so a small sample without discordant seeds does not give 0.
double EstimateDiscordantRate(const PairCounts& counts);

}  // namespace dp_bench::compare
