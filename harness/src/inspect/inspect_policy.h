// What `dp_bench inspect` says about a policy: the shapes on the way through it, where its
// parameters are, and the memory that training it takes.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dp_bench/stage_trace.h"
#include "experiment/experiment.h"
#include "train/module_sizes.h"
#include "train/step_memory.h"

namespace dp_bench::inspect {

struct PolicyInspectionOptions {
  std::int64_t batch_size = 1;                                  // of the shapes
  std::vector<std::int64_t> batch_sizes = {1, 8, 32, 64, 128};  // whose memory is shown
  std::optional<std::int64_t> checked_batch_size;               // to estimate and to measure
  int n_levels = 3;                                             // of modules
};

/// An estimate beside a measurement.
struct MemoryCheck {
  train::StepMemory estimated;
  train::StepMemory measured;

  /// |estimated / measured - 1|
  double deviation() const;
};

struct PolicyInspection {
  std::string policy;
  std::string task;
  std::int64_t batch_size = 0;
  std::vector<Stage> stages;
  std::vector<train::ModuleSize> modules;
  std::int64_t n_parameters = 0;
  train::HeldMemory held;
  std::vector<train::StepMemory> measured;  // the two that estimates stand on
  std::vector<train::StepMemory>
      steps;  // one per entry of batch_sizes; those above `measured` are estimated
  std::optional<MemoryCheck> check;
};

/// Runs the policy on the CPU on synthetic batches; no data set is read.
PolicyInspection InspectPolicy(const experiment::Experiment& experiment,
                               const PolicyInspectionOptions& options);

/// Tables for the terminal. Ends with a line break.
std::string ToText(const PolicyInspection& inspection);

/// The same figures; memory in bytes.
nlohmann::json ToJson(const PolicyInspection& inspection);

}  // namespace dp_bench::inspect
