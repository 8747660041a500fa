// What a task adds to the robot: objects, where they start, and when it is solved.
#pragma once

#include <dp_bench/env.h>
#include <dp_bench/random.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kuavo_model.h"

namespace dp_bench::kuavo_dualarm {

enum class TaskKind { kPickPlace, kBimanualLift, kWeighRelay };

/// "pick_place", "bimanual_lift", "weigh_relay": the param `task` and the name of the scene file.
const std::string& Name(TaskKind kind);
const std::vector<std::string>& TaskNames();  // in the order of TaskKind
TaskKind ParseTask(const std::string& name);  // one of TaskNames()

/// What the env reports after a control step.
struct TaskOutcome {
  double reward = 0.0;  // the stage that the task is in, in [0, 1]; 1 with success
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

  /// Places the objects for an episode in data.qpos and data.mocap_*. `spread` scales the width of
  /// the ranges that poses are drawn from; 1 is the task as it is scored. Also zeroes the counters.
  virtual void Start(RandomStream& random, double spread, mjData& data) = 0;

  /// Advances the dwell counters by one control step.
  virtual TaskOutcome Evaluate(const mjData& data) = 0;

  /// Values of the latest Evaluate, in the order of `metrics`.
  virtual std::span<const double> metric_values() const = 0;

  /// Everything a policy must know of the objects, as well-conditioned numbers: positions [m]; of
  /// an orientation the first two columns of its rotation matrix.
  virtual std::size_t environment_state_size() const = 0;
  virtual void WriteEnvironmentState(const mjData& data, std::span<float> out) const = 0;

  /// What the future of the score depends on beside mjData.
  virtual std::span<double> counters() = 0;

 protected:
  Task() = default;
};

std::unique_ptr<Task> MakeTask(TaskKind kind, const KuavoModel& model);

}  // namespace dp_bench::kuavo_dualarm
