// What `dp_bench profile` measures: where the time of a training step and of an action chunk goes,
// how close that is to the machine's limits, and how much memory is needed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "profile/advice.h"
#include "profile/machine_limits.h"
#include "profile/op_recorder.h"
#include "profile/recorded_work.h"
#include "run/planning.h"
#include "task/experiment.h"
#include "train/step_memory.h"
#include "train/train_step.h"

namespace dp_bench::profile {

struct ProfileOptions {
  int n_steps = 20;   // timed training steps
  int n_listed = 15;  // operators in each table
};

struct TrainingProfile {
  std::int64_t batch_size = 0;
  int n_steps = 0;
  double step_s = 0.0;                                   // mean, measured without the recorder
  std::vector<std::pair<std::string, double>> phases{};  // mean seconds of each phase, in order
  RecordedWork recorded;
};

struct InferenceProfile {
  std::int64_t batch_size = 0;
  run::LatencySummary chunk;                          // measured without the recorder
  std::map<std::string, run::LatencySummary> stages;  // observation encoding, denoising step, ...
  double steps_per_chunk = 0.0;                       // denoising steps
  double flop = 0.0;                                  // of a chunk's products
  RecordedWork recorded;
};

struct ExperimentProfile {
  std::string policy;
  std::string task;
  std::string device;
  std::string precision;
  MachineLimits limits;
  TrainingProfile training;
  std::vector<InferenceProfile> inference;  // batch 1, and env_runner.micro_batch
  train::HeldMemory held;
  std::vector<train::MemoryCheck> memory;  // by batch size; empty for a batch size below 3
  std::vector<Advice> advice;
  std::vector<OpEvent> events;  // all recorded events, for a trace
};

/// Trains on the experiment's dataset for a few steps. `trained` plans the action chunks; if null,
/// the policy in training does.
ExperimentProfile ProfileExperiment(const task::Experiment& experiment, const Dataset& dataset,
                                    const ProfileOptions& options, std::unique_ptr<Policy> trained);

/// Tables for the terminal. Ends with a line break.
std::string ToText(const ExperimentProfile& profile, int n_listed);

/// The same figures, with all operators; times in ms, memory in bytes.
nlohmann::json ToJson(const ExperimentProfile& profile);

}  // namespace dp_bench::profile
