// A table of policies x tasks: the outcomes of each cell, and means over groups of tasks. It needs
// no run folder, so tables of several machines can be joined. suite_ranking.h has which policies
// differ.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compare/intervals.h"
#include "run/run_folder.h"

namespace dp_bench::compare {

/// The evaluation of one policy on one task, trained with one seed.
struct SuiteCell {
  std::string policy;
  std::string task;
  std::uint64_t seed = 0;        // of the training
  std::string config_sha256;     // of everything that the outcomes depend on
  std::uint64_t first_seed = 0;  // of the test seeds, which follow each other
  std::string successes;         // one character for each test seed: '1' or '0'
  std::string successes_at_end;  // the same for the last step; empty without that metric
  int n_failed = 0;              // episodes with a failure_reason
  int n_policy_faults = 0;       // of those, because a remote policy gave no actions
  double mean_score = 0.0;
  std::string env_version;  // of the env's plugin; empty if it is not known
  std::string folder;       // the run folder, relative to that of the suite

  bool operator==(const SuiteCell&) const = default;
};

/// The outcomes of a finished evaluation: all but policy, task, seed, hash, env version and
/// folder. Throws Error{kData} if it has no test episodes, or if their seeds do not follow each
/// other.
SuiteCell OutcomesOf(const run::RunFolder& run);

/// What the expert of a task's env does in its demonstrations.
struct SuiteExpert {
  std::string task;
  std::string config_sha256;  // of env and collection
  int n_success = 0;
  int n = 0;  // seeds that it tried

  bool operator==(const SuiteExpert&) const = default;
};

struct SuiteTaskName {
  std::string name;
  std::string group;  // may be empty

  bool operator==(const SuiteTaskName&) const = default;
};

/// A cell without outcomes.
struct MissingCell {
  std::string policy;
  std::string task;
  std::uint64_t seed = 0;  // of the training

  bool operator==(const MissingCell&) const = default;
};

struct SuiteTable {
  std::string name;
  std::vector<std::string> policies;
  std::vector<SuiteTaskName> tasks;
  std::vector<std::uint64_t> seeds;
  std::vector<SuiteCell> cells;  // those that are done, in the order of policies, tasks and seeds
  std::vector<SuiteExpert> experts;
  std::vector<SuiteCell> other_cells;  // with other settings, kept for the case that they come back
  std::vector<MissingCell> missing;    // in the order of `cells`; files of older builds have none

  bool operator==(const SuiteTable&) const = default;
};

nlohmann::json ToJson(const SuiteTable& table);

/// Reads a suite.json. Throws Error{kData} or {kIo} naming the file.
SuiteTable ReadSuiteTable(const std::filesystem::path& file);

/// A policy on a task: all its training seeds together. They share their test seeds, so the
/// interval (Wilson) is that of as many episodes as there are test seeds.
struct SuiteRate {
  std::string policy;
  std::string task;
  RateInterval any_time;
  std::optional<RateInterval> at_end;  // none without that metric
  int n_policy_faults = 0;
  /// Of the episodes without a policy fault; none if all episodes or none have one.
  std::optional<double> without_faults;
  bool is_part = false;  // cells are missing
};

/// Whether a cell, a rate or the like is of this policy on this task.
inline auto IsOf(std::string_view policy, std::string_view task) {
  return [=](const auto& each) { return each.policy == policy && each.task == task; };
}

/// The cells of a policy on a task, one for each training seed.
std::vector<const SuiteCell*> CellsOf(const SuiteTable& table, const std::string& policy,
                                      const std::string& task);

/// The versions of the env's plugin in which a task was played, with the policies of their cells.
/// Cells of different versions cannot be compared: a version fixes what a success is.
std::map<std::string, std::set<std::string>> EnvVersionsOf(const SuiteTable& table,
                                                           const std::string& task);

/// For each task with several versions: which, and what to do.
std::vector<std::string> VersionFaults(const SuiteTable& table);

/// Whether a policy lacks one of them.
bool LacksCells(const SuiteTable& table, const std::string& policy, const std::string& task);

/// Those that have a cell.
std::vector<SuiteRate> RatesOf(const SuiteTable& table);

/// The mean of the success rates of several tasks, each with the same weight. The interval (95 %)
/// is about other test seeds of the same tasks: MOVER over Wilson's intervals (Zou and Donner 2008,
/// "Construction of confidence limits about effect measures").
struct SuiteMean {
  std::string policy;
  std::optional<std::string> group;  // none: over the tasks of all groups
  int n_tasks = 0;                   // with a cell
  int n_wanted = 0;
  bool is_part = false;  // cells are missing, of whole tasks or of some training seeds
  double mean = 0.0;
  double low = 0.0;
  double high = 1.0;
  std::optional<double> at_end;
};

/// For each policy that has a cell: its groups in the order of the tasks, then all tasks.
std::vector<SuiteMean> MeansOf(const SuiteTable& table);

/// The groups of the tasks, each once.
std::vector<std::string> GroupsOf(const SuiteTable& table);

}  // namespace dp_bench::compare
