// Finished runs side by side: each alone, and each against the first on the seeds that they share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compare/best_of_runs.h"
#include "compare/comparability.h"
#include "compare/difference_interval.h"
#include "compare/mean_interval.h"
#include "compare/paired_outcomes.h"
#include "compare/success_rate.h"
#include "run/run_folder.h"

namespace dp_bench::compare {

/// For the success rate of a single run, 95 %.
enum class RateMethod {
  kWilson,          // correct on average
  kClopperPearson,  // never too narrow: for claims such as "at least"
};

/// "Wilson", "Clopper-Pearson"
std::string_view MethodName(RateMethod method);

struct CompareOptions {
  double difference = 0.05;  // of success rates, in (0, 1]; for pairs_to_detect
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

/// A candidate against the first run.
struct CandidateComparison {
  PairedOutcomes outcomes;
  DifferenceInterval success_rate;  // Newcombe, paired, 95 %
  double p_exact = 1.0;             // McNemar, two-sided
  double p_mid = 1.0;
  double p_holm = 1.0;                 // p_exact, corrected for the number of candidates
  MeanInterval score;                  // of the score differences: Student, 95 %
  double discordant_rate = 0.0;        // assumed for pairs_to_detect
  std::optional<int> pairs_to_detect;  // for RunComparison::difference; two-sided 5 %, power 80 %
  std::vector<Mismatch> mismatches;    // reasons against this comparison
};

/// One of the pairs of three runs or more.
struct RunPair {
  std::size_t a = 0;  // indices into RunComparison::runs
  std::size_t b = 0;
  double p_exact = 1.0;  // McNemar, two-sided; 1 without a shared seed
  double p_holm = 1.0;   // corrected for the number of all pairs
};

struct RunComparison {
  std::vector<ComparedRun> runs;                // at least two
  std::vector<CandidateComparison> candidates;  // [i] is runs[i + 1] against runs[0]
  std::vector<RunPair> pairs;                   // empty for two runs
  std::optional<BestOfRuns> best_of;  // for three runs or more that share at least two seeds
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
