// What a task adds to the robot: objects, their start poses, and the success criterion.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/env.h"
#include "dp_bench/random.h"
#include "kuavo_model.h"

namespace dp_bench::kuavo_dualarm {

enum class TaskKind { kPickPlace, kBimanualLift, kWeighRelay };

/// "pick_place", "bimanual_lift", "weigh_relay": the param `task` and the name of the scene file.
const std::string& Name(TaskKind kind);
const std::vector<std::string>& TaskNames();  // in the order of TaskKind
TaskKind ParseTask(const std::string& name);  // one of TaskNames()

/// The result of a control step.
struct TaskOutcome {
  double reward = 0.0;  // the stage of the task, in [0, 1]; 1 with success
  bool success = false;
};

/// One task of one env instance. Object poses live in mjData: xpos, xquat and xmat of the bodies
/// named in the scene file are up to date after every control step (mj_fwdPosition was called).
class Task {
 public:
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  virtual TaskKind kind() const = 0;
  virtual int max_steps() const = 0;
  virtual std::span<const MetricSpec> metrics() const = 0;

  /// Places the objects for an episode in data.qpos and data.mocap_*, and zeroes the counters.
  /// `spread` scales the width of the ranges of the poses; the task is scored with 1.
  virtual void Start(RandomStream& random, double spread, mjData& data) = 0;

  /// Advances the dwell counters by one control step.
  virtual TaskOutcome Evaluate(const mjData& data) = 0;

  /// Values of the latest Evaluate, in the order of `metrics`.
  virtual std::span<const double> metric_values() const = 0;

  /// Everything a policy must know about the objects, as well-conditioned numbers: positions [m],
  /// and the first two columns of rotation matrices.
  virtual std::size_t environment_state_size() const = 0;
  virtual void WriteEnvironmentState(const mjData& data, std::span<float> out) const = 0;

  /// The part of the state that affects the score and is not in mjData.
  virtual std::span<double> counters() = 0;

 protected:
  Task() = default;
};

std::unique_ptr<Task> MakeTask(TaskKind kind, const KuavoModel& model);

}  // namespace dp_bench::kuavo_dualarm
