// dp_bench eval --perturb: which arms are asked for, and what each of them changes in the config.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiment/task.h"

namespace dp_bench::experiment {

/// One way to make an evaluation harder.
struct PerturbationArm {
  std::string name;                    // as asked for, "delay" or "delay=3"; also its folder
  std::string kind;                    // "delay"
  std::optional<double> strength;      // none for `null`
  std::vector<std::string> overrides;  // of the config
  std::string note;                    // why it cannot have an effect; empty when it may
};

/// Reads `texts`, each KIND or KIND=STRENGTH. `experiment`: the unperturbed one. Throws
/// Error{kUsage} for a kind that neither the harness nor the env has, listing those that exist, and
/// for an experiment that is already perturbed; Error{kConfig} for a strength out of range.
std::vector<PerturbationArm> ReadArms(std::span<const std::string> texts,
                                      const ExperimentOptions& experiment);

}  // namespace dp_bench::experiment
