// The verdict of the gate on one task or several, and the file from which it can continue.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compare/gate.h"

namespace dp_bench::compare {

/// A candidate and its baseline.
struct TaskPair {
  std::string task;  // unique among the pairs; empty if there is only one pair and it names none
  run::RunFolder baseline;
  run::RunFolder candidate;
};

/// Pairs the files by the task that they name, if each names a different one; otherwise in the
/// order given. Throws Error{kUsage} with both lists if the pairing is ambiguous. One baseline and
/// one candidate are always a pair.
std::vector<TaskPair> MatchTasks(std::vector<run::RunFolder> baselines,
                                 std::vector<run::RunFolder> candidates);

struct GateReport {
  GateStatus status = GateStatus::kInconclusive;
  std::string reason;           // a sentence
  SequentialTestConfig config;  // alpha bounds the probability that any FAIL is false
  std::vector<GateResult> tasks;
  double log_fail_evidence = 0.0;  // ln E against "no task dropped": the mean over the tasks
};

/// The config for a single task: with K tasks, its FAIL needs the evidence K / alpha, which by
/// itself shows that some task dropped. A PASS needs no correction, because the whole gate passes
/// only if all tasks do.
SequentialTestConfig ConfigOfTask(SequentialTestConfig config, std::size_t n_tasks);

/// INFRA or NOT COMPARABLE if one task has that status, naming it. FAIL if the mean evidence
/// reaches 1 / alpha. PASS if every task passes. Tasks that e-BH names become FAIL. Needs at least
/// one result, from tests with ConfigOfTask.
GateReport JudgeTasks(const SequentialTestConfig& config, std::vector<GateResult> tasks);

/// A gate that was INCONCLUSIVE.
struct StoppedGate {
  GateStatus status = GateStatus::kInconclusive;
  SequentialTestConfig config;
  std::map<std::string, GateProgress> tasks;  // by name
};

/// Reads what ToJson(GateReport) wrote. Throws Error{kData} naming the file if it has other
/// content, Error{kIo} if it cannot be read.
StoppedGate ReadStoppedGate(const std::filesystem::path& file);

/// The same for text, which messages name `what`.
StoppedGate ParseStoppedGate(std::string_view text, const std::string& what);

/// Settings from the command line; an absent value keeps the earlier one.
struct AskedSettings {
  std::optional<double> margin, alpha, beta;
  std::optional<int> max_pairs;
};

/// Reasons why the gate cannot continue: it already has a verdict, or the request has another
/// margin, alpha or beta, fewer max_pairs, or other tasks. `a` of a mismatch is the value in the
/// file.
std::vector<Mismatch> FindChangedSettings(const StoppedGate& stopped, const AskedSettings& asked,
                                          const std::vector<TaskPair>& pairs);

/// What --json writes; ReadStoppedGate reads it.
nlohmann::json ToJson(const GateReport& report);

}  // namespace dp_bench::compare
