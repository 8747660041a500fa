// The verbs that need no LibTorch. Each Add* declares its options on a CLI11 app and returns the
// function to run, whose result is the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/light/options.h"
#include "compare/gate.h"
#include "compare/pairing.h"
#include "run/run_folder.h"

namespace dp_bench::app {

/// How `gate` rolls out a candidate: a checkpoint, or a policy without weights.
struct GateRollouts {
  std::string policy;            // without weights, instead of candidates; "": none
  std::filesystem::path output;  // the run folder, or the folder for those of several candidates
  bool overwrites = false;       // an evaluation in it
  /// Of one candidate; nothing if it was interrupted. No checkpoint: of the policy.
  std::function<std::optional<compare::GateResult>(
      const std::filesystem::path& checkpoint, const std::filesystem::path& output,
      const run::RunFolder& baseline, const compare::GateRolloutPlan& plan)>
      run;
};

/// Prints reasons against a comparison on standard error. True if there are any.
bool ReportMismatches(const std::vector<compare::Mismatch>& mismatches, const run::RunFolder& a,
                      const run::RunFolder& b);

Verb AddCompare(CLI::App* app);
Verb AddVideo(CLI::App* app);
Verb AddMergeShards(CLI::App* app);
/// Without `rollouts`, a checkpoint as a candidate is an error of the command line.
Verb AddGate(CLI::App* app, std::shared_ptr<GateRollouts> rollouts);

}  // namespace dp_bench::app
