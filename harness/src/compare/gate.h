// The gate on the success rate of one task: may this candidate replace the baseline, the outcomes
// of one evaluation in a JSON file small enough for a repository? gate_report.h combines several
// tasks.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compare/intervals.h"
#include "compare/pairing.h"
#include "compare/sequential_test.h"
#include "run/run_folder.h"

namespace dp_bench::compare {

/// Writes "format", "title", the "env" section of the config with "max_steps", the "env_plugin" and
/// the "outcome_class" of the manifest, and one line per test episode: seed, success, score,
/// broken, trace hash. With another `decided_by` than success (graded_score.h) also that, and for
/// time_to_success the "horizon" and the "success_step" of each line. Throws Error{kData} if the
/// run has no test episodes or two with the same seed, no config.json or manifest.json, or not the
/// scores that should decide.
std::string BaselineJson(const run::RunFolder& run, std::string_view decided_by = "success");

/// Reads the file as the run folder that it represents; path() is the file's path. Throws
/// Error{kData} naming the file if it is not a baseline, Error{kIo} if it cannot be read.
run::RunFolder ReadBaseline(const std::filesystem::path& file);

/// The same for text that was read from `file`.
run::RunFolder ParseBaseline(std::string_view text, const std::filesystem::path& file);

enum class GateStatus {
  kPass,           // 0: no drop of the margin or more
  kFail,           // 1: a drop
  kInconclusive,   // 3: more seeds may tell
  kNotComparable,  // 4: another task, other seeds
  kInfra,          // 5: too many episodes broke
};

/// "PASS", "FAIL", "INCONCLUSIVE", "NOT COMPARABLE", "INFRA"
std::string_view StatusName(GateStatus status);
/// The inverse; none for another name.
std::optional<GateStatus> StatusOf(std::string_view name);
int ExitCodeOf(GateStatus status);

struct GateResult {
  GateStatus status = GateStatus::kInconclusive;
  std::string reason;                // a sentence
  std::string note;                  // why episodes differ, or broke; may be empty
  std::string title;                 // of the candidate
  std::string task;                  // unique among those of a GateReport
  std::vector<Mismatch> mismatches;  // of kNotComparable
  SequentialTest test;
  bool has_signature = false;  // every shared episode equals the baseline's, bit for bit
  int n_shared = 0;            // seeds that both ran
  RateInterval baseline;       // over the seeds that were counted
  RateInterval candidate;
  DropInterval drop;  // of the success rate, or of the score that decides
  double rho = 0.0;   // correlation of the outcomes over the seeds; pairing gains most if high
  std::string outcomes_hash;    // SHA-256 over the seeds counted and both outcomes of each
  std::string checkpoint_hash;  // from the candidate's manifest; may be empty

  /// ln E against "no drop" at the last look; 0 before the first.
  double log_fail_evidence() const;
};

/// What every form of a gate shows of a task.
nlohmann::json ToJson(const GateResult& result);

/// Where an earlier gate stopped: enough to tell whether two runs continue it correctly.
struct GateProgress {
  int n_pairs = 0;  // counted so far
  std::string decided_by;
  std::string outcomes_hash;  // see GateResult
  std::string checkpoint_hash;
};

/// Counts the shared seeds in the order of the baseline's list until the test decides. One seed
/// list must begin with the other. Runs that cannot be paired (WhyUnpaired) are paired in order. If
/// there are at least 8 shared episodes and all have equal trace hashes, the result is PASS. If
/// more than 1 % of a run's episodes broke, there is no verdict. The baseline fixes which score
/// decides, whatever `config` says. A gate that continues an `earlier`
/// one (may be null) counts everything anew. It is kNotComparable, naming the field, if the
/// candidate or the outcomes that were counted then differ. Throws Error{kData} if the candidate
/// has the same task and no test episodes, Error{kConfig} for a bad `config`. `more_seeds`: what
/// the user does if the gate is inconclusive; empty: more of `dp_bench gate`.
GateResult RunGate(const run::RunFolder& baseline, const run::RunFolder& candidate,
                   const SequentialTestConfig& config, const GateProgress* earlier = nullptr,
                   const std::string& more_seeds = "");

/// How a checkpoint is rolled out until there is a verdict.
struct GateRolloutPlan {
  int n_first = 8;                 // episodes before the first look; 8 are enough for a signature
  int max_episodes = 0;            // upper limit
  bool stops_at_signature = true;  // else equal episodes count as ordinary pairs
  std::function<GateResult(const run::RunFolder& candidate)> judge;
};

}  // namespace dp_bench::compare
