// What `dp_bench profile` measures: where the time of a training step and of an action chunk goes,
// how close that is to the machine's limits, and how much memory is needed.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "dp_bench/dataset.h"
#include "dp_bench/policy.h"
#include "profile/op_recorder.h"
#include "task/experiment.h"

namespace dp_bench::profile {

struct ProfileOptions {
  int n_steps = 20;   // timed training steps
  int n_listed = 15;  // operators in each table
};

/// Trains on the experiment's dataset for a few steps. `trained` plans the action chunks; if null,
/// the policy in training does. Returns all figures, with all operators: times in ms, memory in
/// bytes. `events` gets all recorded events, for a trace.
nlohmann::json ProfileExperiment(const task::Experiment& experiment, const Dataset& dataset,
                                 const ProfileOptions& options, std::unique_ptr<Policy> trained,
                                 std::vector<OpEvent>* events);

/// Tables for the terminal. Ends with a line break.
std::string ProfileText(nlohmann::json profile, int n_listed);

}  // namespace dp_bench::profile
