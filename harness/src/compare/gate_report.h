// The verdict of the gate on one task or several, and the file from which it can go on.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compare/gate.h"

namespace dp_bench::compare {

/// A candidate and what it is held to.
struct TaskPair {
  std::string task;  // unique among the pairs; empty when the only pair names none
  run::RunFolder baseline;
  run::RunFolder candidate;
};

/// Matches by the task that the files name, where each names another one, else in the order given.
/// Throws Error{kUsage} telling both lists when that leaves a doubt. One of each is always a pair.
std::vector<TaskPair> MatchTasks(std::vector<run::RunFolder> baselines,
                                 std::vector<run::RunFolder> candidates);

struct GateReport {
  GateStatus status = GateStatus::kInconclusive;
  std::string reason;           // a sentence
  SequentialTestConfig config;  // alpha bounds the probability that any FAIL is false
  std::vector<GateResult> tasks;
  double log_fail_evidence = 0.0;  // ln E against "no task dropped": of the mean over the tasks
};

/// Of each task alone: with K tasks its FAIL takes the evidence K / alpha, which by itself shows
/// that some task dropped. A PASS needs no correction, since the whole takes all of them.
SequentialTestConfig ConfigOfTask(SequentialTestConfig config, std::size_t n_tasks);

/// INFRA or NOT COMPARABLE where one task is, naming it; FAIL where the mean of the evidence
/// reaches 1 / alpha; PASS where every task passes. Tasks that e-BH names become FAIL. At least one
/// result, of tests with ConfigOfTask.
GateReport JudgeTasks(const SequentialTestConfig& config, std::vector<GateResult> tasks);

/// A gate that was INCONCLUSIVE.
struct StoppedGate {
  struct Task {
    std::string task;
    GateProgress progress;
  };
  GateStatus status = GateStatus::kInconclusive;
  SequentialTestConfig config;
  std::vector<Task> tasks;
};

/// Reads what ToJson(GateReport) wrote. Throws Error{kData} naming the file when it is something
/// else, Error{kIo} when it cannot be read.
StoppedGate ReadStoppedGate(const std::filesystem::path& file);

/// The same for a text that messages call `what`.
StoppedGate ParseStoppedGate(std::string_view text, const std::string& what);

/// What the command line asks for; absent is "as before".
struct AskedSettings {
  std::optional<double> margin, alpha, beta;
  std::optional<int> max_pairs;
};

/// What forbids to go on: a verdict that is there, another margin, alpha or beta, fewer max_pairs,
/// other tasks. `a` of a mismatch is what the file has.
std::vector<Mismatch> FindChangedSettings(const StoppedGate& stopped, const AskedSettings& asked,
                                          const std::vector<TaskPair>& pairs);

/// The tests of `stopped`, in the order of `pairs`, to be continued to `max_pairs`. After
/// FindChangedSettings found nothing.
std::vector<GateProgress> ProgressOf(const StoppedGate& stopped, const std::vector<TaskPair>& pairs,
                                     int max_pairs);

/// What --json writes; ReadStoppedGate reads it.
nlohmann::json ToJson(const GateReport& report);

}  // namespace dp_bench::compare
