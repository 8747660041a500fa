// What a finished comparison on shared seeds says about the difference of two success rates, and
// how many seeds it would have taken to say more.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compare/paired_outcomes.h"

namespace dp_bench::compare {

/// Success rate of B minus that of A, in [-1, 1].
struct DifferenceInterval {
  double difference = 0.0;
  double low = -1.0;
  double high = 1.0;
};

/// The interval of Newcombe (1998, "Improved confidence intervals for the difference between
/// binomial proportions based on paired data", method 10): the two Wilson intervals, squared and
/// added, with the correlation between the runs. Without pairs it is [-1, 1].
DifferenceInterval NewcombePairedInterval(const PairCounts& counts, double confidence = 0.95);

/// McNemar's test (1947) of "both succeed equally often", two-sided, from the binomial distribution
/// of the discordant seeds. 1 without any.
double McNemarExactP(const PairCounts& counts);

/// The same with half the probability of what was observed (Lancaster 1961): less conservative, and
/// close to its nominal level for few discordant seeds (Fagerland et al. 2013).
double McNemarMidP(const PairCounts& counts);

/// Holm's (1979) p-values for several tests at once, in the order given: each may be compared with
/// the level that all of them together are to keep.
std::vector<double> HolmAdjusted(std::span<const double> p_values);

/// An assumption about the truth, for the question how many seeds would show it.
struct PowerQuestion {
  double difference = 0.05;      // of the success rates, in (0, 1]
  double discordant_rate = 0.2;  // share of seeds with different outcomes, at least `difference`
  double alpha = 0.05;           // one-sided level of the mid-p McNemar test
  double power = 0.8;            // wanted probability that the test shows the difference
};

constexpr int kMaxPairsToDetect = 1'000'000;

/// The smallest number of shared seeds with that power, exact; nothing when it takes more than
/// kMaxPairsToDetect.
std::optional<int> PairsToDetect(const PowerQuestion& question);

/// For PowerQuestion: the share of discordant seeds that `counts` suggest, with the rule of
/// succession, so that no discordant seeds among few are not taken for a law.
double EstimateDiscordantRate(const PairCounts& counts);

}  // namespace dp_bench::compare
