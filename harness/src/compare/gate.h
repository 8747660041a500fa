// The gate of a success rate: may this candidate replace the baseline?
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compare/comparability.h"
#include "compare/sequential_test.h"
#include "report/run_folder.h"
#include "report/success_rate.h"

namespace dp_bench {

enum class GateStatus {
  kPass,           // 0: no drop of the margin or more
  kFail,           // 1: a drop
  kInconclusive,   // 3: more seeds may tell
  kNotComparable,  // 4: another task, other seeds
  kInfra,          // 5: too many episodes broke
};

/// "PASS", "FAIL", "INCONCLUSIVE", "NOT COMPARABLE", "INFRA"
std::string_view StatusName(GateStatus status);
int ExitCodeOf(GateStatus status);

struct GateResult {
  GateStatus status = GateStatus::kInconclusive;
  std::string reason;                // a sentence
  std::string title;                 // of the candidate
  std::vector<Mismatch> mismatches;  // of kNotComparable
  SequentialTest test;
  bool has_signature = false;  // every shared episode equals the baseline's, bit for bit
  int n_shared = 0;            // seeds that both ran
  RateInterval baseline;       // over the seeds that were counted
  RateInterval candidate;
  DropInterval drop;
  double rho = 0.0;  // correlation of the outcomes over the seeds: how much pairing gains
};

/// Counts the seeds that both have, in the order of the baseline's list, until the test decides.
/// One seed list must begin with the other. Equal trace hashes of 8 episodes or more, all that both
/// have, are a PASS by themselves. No verdict where more than 1 % of a run's episodes broke. Throws
/// Error{kData} when the candidate has no test episodes.
GateResult RunGate(const RunFolder& baseline, const RunFolder& candidate,
                   const SequentialTestConfig& config);

/// For the terminal; ends with a line break.
std::string GateText(const GateResult& result);
nlohmann::json ToJson(const GateResult& result);
/// One test case, which fails, errs or is skipped.
std::string GateJUnit(const GateResult& result);
/// A comment for a pull request.
std::string GateMarkdown(const GateResult& result);

}  // namespace dp_bench
