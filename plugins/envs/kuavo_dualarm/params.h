// The params of the env, read and checked once.
#pragma once

#include <string>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/config.h"
#include "dp_bench/env.h"
#include "tasks/task.h"

namespace dp_bench::kuavo_dualarm {

/// The param `obs`.
enum class ObsMode { kState, kRgb, kRgbd };

/// Variation between episodes besides the start, drawn from the episode's seed. Everything is off
/// by default.
struct RandomizationParams {
  double object_pose = 1.0;
  double light = 0.0;
  double colours = 0.0;
  double camera_position = 0.0;
  double camera_rotation = 0.0;
  double friction = 0.0;
  double mass = 0.0;
  double control_delay = 0.0;
  double action_noise = 0.0;

  bool ChangesModel() const;
};

/// Makes an evaluation harder than the task: strengths from 0 to 1, with draws separate from those
/// of the randomization. All 0 without the param `perturb`.
struct PerturbationParams {
  double light = 0.0;
  double camera = 0.0;
  double friction = 0.0;

  /// Its keys.
  static std::vector<PerturbationSpec> Kinds();
  bool ChangesModel() const { return light > 0.0 || camera > 0.0 || friction > 0.0; }
};

struct Params {
  const TaskKind* task = nullptr;
  TaskSettings task_settings;
  ObsMode obs = ObsMode::kState;
  int image_width = 640;
  int image_height = 480;
  DType depth_dtype = DType::kUInt16;  // millimetres; kFloat32: metres
  double head_pitch = 0.40;
  bool is_tiled = true;
  std::string scene_dir;
  RandomizationParams randomization;
  PerturbationParams perturbation;

  static Params FromConfig(const Config& config);
  static std::vector<std::string> ObsModeNames();
};

}  // namespace dp_bench::kuavo_dualarm
