// The file of a suite: which policies, tasks and training seeds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "dp_bench/config.h"

namespace dp_bench::suite {

/// A row of the table.
struct SuitePolicy {
  std::string name;
  std::string policy;                // configs/policy/<policy>.json
  std::filesystem::path config;      // instead: a config file that has the policy
  std::filesystem::path checkpoint;  // instead: only evaluated
  /// False for policies without weights, such as `remote` or `random`.
  bool is_trained = true;
  bool is_multi_task = false;  // one training for all tasks
  std::vector<std::string> overrides;
};

/// A column of the table.
struct SuiteTask {
  std::string name;
  std::string group;
  std::string env;   // configs/task/<env>.json
  std::string obs;   // configs/task/<env>_<obs>.json
  std::string task;  // env.params.task
  std::vector<std::string> overrides;
};

struct SuiteFile {
  std::string name;
  std::vector<SuitePolicy> policies;
  std::vector<SuiteTask> tasks;
  std::vector<std::uint64_t> seeds = {42};  // values of training.seed
  std::vector<std::string> overrides;       // of every run

  /// Throws Error{kConfig} naming file and line.
  static SuiteFile FromConfig(const Config& config);
};

/// Reads a JSON file with comments. Throws Error{kConfig}; unknown keys are named.
SuiteFile ReadSuiteFile(const std::filesystem::path& file);

}  // namespace dp_bench::suite
