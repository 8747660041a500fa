// The gate on the success rate of one task: may this candidate replace the baseline? gate_report.h
// combines several tasks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compare/intervals.h"
#include "compare/pairing.h"
#include "compare/sequential_test.h"
#include "run/run_folder.h"

namespace dp_bench::compare {

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
  std::string note;                  // why episodes differ from the baseline's; may be empty
  std::string title;                 // of the candidate
  std::string task;                  // unique among those of a GateReport
  std::vector<Mismatch> mismatches;  // of kNotComparable
  SequentialTest test;
  bool has_signature = false;  // every shared episode equals the baseline's, bit for bit
  int n_shared = 0;            // seeds that both ran
  RateInterval baseline;       // over the seeds that were counted
  RateInterval candidate;
  DropInterval drop;
  double rho = 0.0;  // correlation of the outcomes over the seeds; pairing gains most if high
  std::string outcomes_hash;    // see GateProgress
  std::string checkpoint_hash;  // see GateProgress

  /// ln E against "no drop" at the last look; 0 before the first.
  double log_fail_evidence() const;
};

/// Where a test stopped: enough to tell whether two runs continue it correctly.
struct GateProgress {
  SequentialTest test;
  std::string outcomes_hash;    // SHA-256 over the seeds counted and both outcomes of each
  std::string checkpoint_hash;  // from the candidate's manifest; may be empty
};

/// Counts the shared seeds in the order of the baseline's list until the test decides. One seed
/// list must begin with the other. Runs that cannot be paired (WhyUnpaired) are paired in order. If
/// there are at least 8 shared episodes and all have equal trace hashes, the result is PASS. If
/// more than 1 % of a run's episodes broke, there is no verdict. Throws Error{kData} if the
/// candidate has no test episodes, Error{kConfig} for a bad `config`.
GateResult RunGate(const run::RunFolder& baseline, const run::RunFolder& candidate,
                   const SequentialTestConfig& config);

/// Continues a stopped test, with the same result as RunGate on all of these episodes. Returns
/// kNotComparable, naming the field, if the candidate or the counted outcomes differ from those of
/// `earlier`.
GateResult ContinueGate(const run::RunFolder& baseline, const run::RunFolder& candidate,
                        const GateProgress& earlier);

}  // namespace dp_bench::compare
