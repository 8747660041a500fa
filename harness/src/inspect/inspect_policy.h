// What `dp_bench inspect` reports about a policy: the shapes of its stages, its parameters by
// module, and the memory for training it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "policy/stage_recorder.h"
#include "train/module_sizes.h"
#include "train/step_memory.h"

namespace dp_bench::inspect {

struct PolicyInspectionOptions {
  std::int64_t batch_size = 1;                                  // of the shapes
  std::vector<std::int64_t> batch_sizes = {1, 8, 32, 64, 128};  // sizes in the memory table
  std::optional<std::int64_t> checked_batch_size;               // size to both estimate and measure
  int n_levels = 3;                                             // of modules
};

struct PolicyInspection {
  std::string policy;
  std::string task;
  std::int64_t batch_size = 0;
  std::vector<policy::Stage> stages;
  std::vector<train::ModuleSize> modules;
  std::int64_t n_parameters = 0;
  train::HeldMemory held;
  std::vector<train::StepMemory> measured;  // the two measurements behind the estimates
  std::vector<train::StepMemory>
      steps;  // one per entry of batch_sizes; those above `measured` are estimated
  std::optional<train::MemoryCheck> check;
};

/// Runs the policy on the CPU on synthetic batches; reads no data set.
PolicyInspection InspectPolicy(const experiment::Experiment& experiment,
                               const PolicyInspectionOptions& options);

/// Tables for the terminal. Ends with a line break.
std::string ToText(const PolicyInspection& inspection);

/// The same figures; memory in bytes.
nlohmann::json ToJson(const PolicyInspection& inspection);

}  // namespace dp_bench::inspect
