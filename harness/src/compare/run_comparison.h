// Finished runs side by side: each by itself, and each against the first on the seeds they share.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compare/comparability.h"
#include "compare/difference_interval.h"
#include "compare/paired_outcomes.h"
#include "report/mean_interval.h"
#include "report/run_folder.h"
#include "report/success_rate.h"

namespace dp_bench {

/// One run, over its split "test".
struct ComparedRun {
  std::string label;  // "A", "B", ...
  RunFolder files;
  SplitSummary test;
  RateInterval success_rate;  // Wilson, 95 %
};

/// A candidate against the first run.
struct CandidateComparison {
  PairedOutcomes outcomes;
  DifferenceInterval success_rate;  // Newcombe, paired, 95 %
  double p_exact = 1.0;             // McNemar, two-sided
  double p_mid = 1.0;
  double p_holm = 1.0;                 // p_exact, corrected for the number of candidates
  MeanInterval score;                  // of the score differences: Student, 95 %
  double discordant_rate = 0.0;        // assumed for the following
  std::optional<int> pairs_to_detect;  // for RunComparison::difference; two-sided 5 %, power 80 %
  std::vector<Mismatch> mismatches;    // what speaks against this comparison
};

struct RunComparison {
  std::vector<ComparedRun> runs;                // two at least
  std::vector<CandidateComparison> candidates;  // [i] is runs[i + 1] against runs[0]
  double difference = 0.05;                     // of success rates, whose number of seeds is told
  std::vector<std::string> notes;
};

constexpr std::size_t kMaxComparedRuns = 26;

/// Throws Error{kData} when a folder has no test episodes, or two of one seed.
std::vector<RunFolder> ReadRunsToCompare(std::span<const std::filesystem::path> folders);

/// 2 to kMaxComparedRuns runs of ReadRunsToCompare; `difference` in (0, 1]. Throws Error{kData}
/// when a candidate shares no seed with the first run.
RunComparison CompareRuns(std::vector<RunFolder> folders, double difference);

/// For the terminal; ends with a line break.
std::string ComparisonText(const RunComparison& comparison);

nlohmann::json ToJson(const RunComparison& comparison);

}  // namespace dp_bench
