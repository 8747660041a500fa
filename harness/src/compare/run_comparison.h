// Finished runs side by side: each alone, each against the first on the seeds that they share, and
// with three or more all pairs (letters).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compare/intervals.h"
#include "compare/pairing.h"
#include "compare/policy_ranking.h"
#include "run/run_folder.h"

namespace dp_bench::compare {

/// For the success rate of a single run, 95 %.
enum class RateMethod {
  kWilson,          // correct on average
  kClopperPearson,  // never too narrow: for claims such as "at least"
};

struct CompareOptions {
  double difference = 0.05;  // of success rates, in (0, 1]; for n_to_detect
  RateMethod rate_method = RateMethod::kWilson;
  std::size_t n_for_letters = 3;  // fewer runs have no letters
};

/// One run, over its split "test".
struct ComparedRun {
  std::string label;  // "A", "B", ...
  run::RunFolder files;
  run::SplitSummary test;
  RateInterval success_rate;  // by CompareOptions::rate_method
  // with CompareOptions::n_for_letters runs or more:
  std::string letters;  // runs with a letter in common are not shown to differ
  RankInterval rank;
};

/// A candidate against the first run, on shared seeds; over all episodes if the seeds cannot be
/// paired.
struct CandidateComparison {
  std::string why_unpaired;  // see WhyUnpaired; then `outcomes` has no pairs
  PairedOutcomes outcomes;
  DifferenceInterval success_rate;  // Newcombe, 95 %
  double p_exact = 1.0;             // McNemar, or Fisher if unpaired; two-sided
  double p_mid = 1.0;               // McNemar
  double p_holm = 1.0;              // p_exact, corrected for the number of candidates
  MeanInterval score;               // of the score differences: Student, or Welch if unpaired; 95 %
  double discordant_rate = 0.0;     // assumed for n_to_detect
  /// Shared seeds, or episodes of each run if unpaired, for CompareOptions::difference; two-sided
  /// 5 %, power 80 %. None: more than kMaxPairsToDetect.
  std::optional<int> n_to_detect;

  bool is_paired() const { return why_unpaired.empty(); }
  std::vector<Mismatch> mismatches;  // reasons against this comparison
};

struct RunComparison {
  std::vector<ComparedRun> runs;                // at least two
  std::vector<CandidateComparison> candidates;  // [i] is runs[i + 1] against runs[0]
  /// With CompareOptions::n_for_letters runs or more, all pairs; e-BH at 5 %. Runs that cannot be
  /// paired by seed are paired in the order of their episodes.
  std::vector<RankedPair> pairs;
  CompareOptions options;
  std::vector<std::string> notes;
};

constexpr std::size_t kMaxComparedRuns = 26;

/// Returns `run`. Throws Error{kData} if it is not finished, has no test episodes, or two with the
/// same seed.
run::RunFolder RequireComparable(run::RunFolder run);

/// Needs 2 to kMaxComparedRuns runs from RequireComparable. Throws Error{kData} if a candidate
/// shares no seed with the first run.
RunComparison CompareRuns(std::vector<run::RunFolder> runs, const CompareOptions& options);

}  // namespace dp_bench::compare
