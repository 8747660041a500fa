// Which of many policies differ, from what they did on the same test seeds. The evidence about each
// pair is an e-value, so it may be looked at again after more seeds.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dp_bench::compare {

/// ln of the e-values of a pair of policies: evidence that A is better, and that B is.
struct PairEvidence {
  double log_a_better = 0.0;
  double log_b_better = 0.0;
};

/// The evidence from the differences A minus B, one for each test seed, in [-1, 1]: for one episode
/// a seed they are -1, 0 or 1, otherwise the mean over tasks and training seeds. Each bet t
/// multiplies its wealth by 1 + tanh(t d); the evidence is the mean wealth of 24 bets.
///
/// If d and -d are equally likely given the seeds before, the expected factor is 1, so the e-value
/// holds whenever one looks, and for any dependence between the tasks and trainings of a seed. For
/// one episode a seed that means equal success rates. (A martingale of this class for symmetric
/// data: Ramdas, Ruf, Larsson and Koolen 2022, "Admissible anytime-valid sequential inference must
/// rely on nonnegative martingales".)
PairEvidence EvidenceOf(std::span<const double> differences);

/// The ranks that a policy may have.
struct RankInterval {
  int best = 1;  // 1 is the best
  int worst = 1;

  bool operator==(const RankInterval&) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankInterval, best, worst)

/// "2", or "2 to 4".
std::string RankText(const RankInterval& rank);

/// The evidence about policies a < b.
struct RankedPair {
  std::size_t a = 0;
  std::size_t b = 0;
  PairEvidence evidence;
  bool is_different = false;  // set by NameDifferences
};

/// e-BH (Wang and Ramdas 2022, "False discovery rate control with e-values") over both directions
/// of all pairs, for any dependence between them: on average, at most 5 % of the pairs that are
/// named differ in the other direction or not at all.
void NameDifferences(std::span<RankedPair> pairs);

/// The ranks of `n` policies that the evidence leaves open. With a probability of at least 95 % all
/// intervals hold at once: Holm's procedure with 1/E as p-values.
std::vector<RankInterval> RankIntervals(std::size_t n, std::span<const RankedPair> pairs);

/// Insert-and-absorb (Piepho 2004, "An algorithm for a letter-based representation of all-pairwise
/// comparisons"). `different` lists the pairs of runs 0 to n - 1 that differ significantly. Two
/// runs share a letter exactly if their pair is not listed. Run 0 has the letter "a", so if runs
/// are sorted by merit, the best one has an "a".
std::vector<std::string> LetterDisplay(
    std::size_t n, std::span<const std::pair<std::size_t, std::size_t>> different);

/// The letters of policies with these success rates, in their order, from the pairs that are named.
/// The best one has an "a".
std::vector<std::string> LettersByRate(std::span<const double> rates,
                                       std::span<const RankedPair> pairs);

}  // namespace dp_bench::compare
