// Finished runs side by side: each alone, each against the first on the seeds that they share, and
// with three or more all pairs (letters).
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compare/intervals.h"
#include "compare/pairing.h"
#include "run/run_folder.h"

namespace dp_bench::compare {

/// Insert-and-absorb (Piepho 2004, "An algorithm for a letter-based representation of all-pairwise
/// comparisons"). `different` lists the pairs of runs 0 to n - 1 that differ significantly. Two
/// runs share a letter exactly if their pair is not listed. Run 0 has the letter "a", so if runs
/// are sorted by merit, the best one has an "a".
std::vector<std::string> LetterDisplay(
    std::size_t n, std::span<const std::pair<std::size_t, std::size_t>> different);

/// For the success rate of a single run, 95 %.
enum class RateMethod {
  kWilson,          // correct on average
  kClopperPearson,  // never too narrow: for claims such as "at least"
};

struct CompareOptions {
  double difference = 0.05;  // of success rates, in (0, 1]; for n_to_detect
  RateMethod rate_method = RateMethod::kWilson;
};

/// One run, over its split "test".
struct ComparedRun {
  std::string label;  // "A", "B", ...
  run::RunFolder files;
  run::SplitSummary test;
  RateInterval success_rate;  // by CompareOptions::rate_method
  std::string letters;        // with three runs or more: runs with a letter in common may be equal
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

/// One of the pairs of three runs or more.
struct RunPair {
  std::size_t a = 0;  // indices into RunComparison::runs
  std::size_t b = 0;
  double p_exact = 1.0;  // as in CandidateComparison; 1 without a shared seed
  double p_holm = 1.0;   // corrected for the number of all pairs
};

struct RunComparison {
  std::vector<ComparedRun> runs;                // at least two
  std::vector<CandidateComparison> candidates;  // [i] is runs[i + 1] against runs[0]
  std::vector<RunPair> pairs;                   // empty for two runs
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
