// What a suite consists of: one command of dp_bench for each demonstration set, training and
// evaluation.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compare/suite_table.h"
#include "config/loader.h"
#include "suite/suite_file.h"

namespace dp_bench::suite {

enum class StepKind {
  kCollect,   // demonstrations, which all policies of a task share
  kTrain,     // one policy for all tasks
  kRun,       // trains and evaluates
  kEvaluate,  // a policy that is there
};

struct SuiteStep {
  StepKind kind = StepKind::kRun;
  std::string title;                 // "unet on reach-v3, seed 42"
  std::filesystem::path folder;      // of the suite's own files about the step
  std::filesystem::path product;     // dataset or run folder; in `folder`
  std::vector<std::string> command;  // the verb first; the product follows as --output
  std::vector<std::size_t> needs;    // steps that must be done before
  std::string trial;                 // the same for steps that cost about the same: seeds, tasks
  /// Of kRun and kEvaluate: policy, task, seed, hash and folder. The outcomes are still missing.
  std::optional<compare::SuiteCell> cell;
  int n_test = 0;  // of a cell with a budget: the test seeds that it needs now; 0: as configured
  /// Of kCollect: the tasks with these demonstrations, and the hash of env and collection.
  std::vector<std::string> tasks;
  std::string hash;
};

/// The config that a command would have.
using ResolveConfig = std::function<nlohmann::json(const config::ConfigRequest& request)>;

struct SuiteOptions {
  std::filesystem::path folder;  // of the suite
  std::vector<std::filesystem::path> config_dirs;
  std::vector<std::filesystem::path> plugin_dirs;
  std::string device;                  // empty: that of the configs
  std::vector<std::string> overrides;  // of every run; they win over those of the file
  /// The numbers of test seeds follow from a budget. Then env_runner.n_test is not hashed.
  bool has_budget = false;
  ResolveConfig resolve;
};

/// The steps in the order in which they are best run: task by task. A step's folder has the hash of
/// its config in its name, so that other settings never find old results. What does not change
/// outcomes is not hashed: the interpreter of an env, and numbers of workers.
/// Throws Error{kConfig} or {kCheckpoint} for a suite that cannot run.
std::vector<SuiteStep> StepsOf(const SuiteFile& suite, const SuiteOptions& options);

/// The command of a step, with its number of test seeds.
std::vector<std::string> CommandOf(const SuiteStep& step);

}  // namespace dp_bench::suite
