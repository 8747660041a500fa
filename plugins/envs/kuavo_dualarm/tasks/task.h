// What a task adds to the robot: objects, their start poses, the success criterion, and the script
// that solves it. A task is one file in this folder, a line in task.cc and a scene.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/env.h"
#include "dp_bench/random.h"
#include "kuavo_model.h"

namespace dp_bench::kuavo_dualarm {

/// One task of one env instance. Object poses live in mjData: xpos, xquat and xmat of the bodies
/// named in the scene file are up to date after every control step (mj_fwdPosition was called).
class Task {
 public:
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  virtual int max_steps() const = 0;
  /// See EnvSpec.
  virtual bool moves_without_actions() const { return false; }
  virtual std::vector<MetricSpec> metrics() const = 0;

  /// Places the objects for an episode in data.qpos and data.mocap_*, and zeroes the counters.
  /// `spread` scales the width of the ranges of the poses; the task is scored with 1.
  virtual void Start(RandomStream& random, double spread, mjData& data) = 0;

  /// Drives what moves by itself during the next control step: a function of the episode's seed and
  /// the number of steps so far.
  virtual void Drive(std::uint64_t /*seed*/, std::int64_t /*step*/, mjData& /*data*/) {}

  /// The outcome of a control step, by which it advances the dwell counters. The reward is the
  /// stage of the task, in [0, 1]; 1 with success, which ends the episode.
  virtual StepResult Evaluate(const mjData& data) = 0;

  /// Everything a policy must know about the objects, as well-conditioned numbers: positions [m],
  /// and the first two columns of rotation matrices.
  virtual std::size_t environment_state_size() const = 0;
  virtual void WriteEnvironmentState(const mjData& data, std::span<float> out) const = 0;

  /// The part of the state that affects the score and is not in mjData.
  virtual std::span<double> counters() = 0;

 protected:
  Task() = default;
};

/// What params say about tasks.
struct TaskSettings {
  // of conveyor_pick: the largest of all episodes [m/s], and the share by which it varies
  double belt_speed = 0.08;
  double belt_change = 0.0;
};

class Script;  // expert/script.h

/// The model must outlive what is made for it. The functions are CreateInstance of the classes.
struct TaskKind {
  const char* name;         // the param `task`, and the name of the scene file
  const char* instruction;  // for policies that read
  std::unique_ptr<Task> (*make_task)(const KuavoModel& model, const TaskSettings& settings);
  std::unique_ptr<Script> (*make_script)(const KuavoModel& model);
};
extern const TaskKind kPickPlace;
extern const TaskKind kBimanualLift;
extern const TaskKind kWeighRelay;
extern const TaskKind kConveyorPick;

/// All of them; the first is the default.
std::vector<const TaskKind*> TaskKinds();
std::vector<std::string> TaskNames();

}  // namespace dp_bench::kuavo_dualarm
