// A training with its run folder, and the evaluation after it: what train, run and distill share.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "core/communicator.h"
#include "task/experiment.h"
#include "task/output_folder.h"

namespace dp_bench::app {

struct TrainPlan {
  std::filesystem::path output;  // empty: a new run folder
  bool is_resumed = false;
  std::filesystem::path checkpoint;     // to continue from; empty: the latest
  bool with_report = false;             // also evaluates and reports
  bool is_tried = false;                // a dry run, which needs no env
  std::function<void()> before_writes;  // called when all checks have passed; may be empty
  std::filesystem::path of_seeds = {};  // the folder of all seeds that --resume continues, if any
};

/// The config of a resumed run comes from its folder. Throws Error{kUsage} if another one is given.
task::ExperimentOptions ResumeOptions(task::ExperimentOptions options,
                                      const std::filesystem::path& folder);

std::unique_ptr<task::OutputFolder> OpenOutput(const TrainPlan& plan,
                                               const task::Experiment& experiment,
                                               core::Communicator& ranks);

/// Collects the demonstrations if there are none, and trains. With a report, evaluates the trained
/// weights too. Signals interrupt it. Returns the exit code.
int TrainAndReport(task::ExperimentOptions options, const TrainPlan& plan,
                   core::Communicator& ranks);

}  // namespace dp_bench::app
