#include "params.h"

#include <utility>

#include "dp_bench/config_keys.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr int kMaxImageSize = 4096;

std::vector<std::pair<std::string, ObsMode>> ObsModes() {
  return {{"state", ObsMode::kState}, {"rgb", ObsMode::kRgb}, {"rgbd", ObsMode::kRgbd}};
}

RandomizationParams ReadRandomization(const Config& section) {
  RandomizationParams p;
  const ConfigKeys keys(section);
  keys("object_pose", &p.object_pose, 0.0, 1.0, "share of the task's start ranges that is used");
  keys("light", &p.light, 0.0, 1.0, "relative change of brightness; half of it of the direction");
  keys("colours", &p.colours, 0.0, 1.0, "floor, table and objects: 0 own colours, 1 random ones");
  keys("camera_position", &p.camera_position, 0.0, 0.1,
       "shift of the robot's cameras per axis, in m");
  keys("camera_rotation", &p.camera_rotation, 0.0, 0.5,
       "turn of the robot's cameras per axis, in rad");
  keys("friction", &p.friction, 0.0, 0.9, "relative change for objects and finger pads");
  keys("mass", &p.mass, 0.0, 0.9, "relative change for the objects");
  keys("control_delay", &p.control_delay, 0.0, 0.1,
       "longest delay of the control in s; drawn from 0 to this");
  keys("action_noise", &p.action_noise, 0.0, 0.5,
       "standard deviation of noise on every joint target, in rad");
  return p;
}

PerturbationParams ReadPerturbation(const Config& section) {
  PerturbationParams p;
  const ConfigKeys keys(section);
  keys("light", &p.light, 0.0, 1.0,
       "1: brightness of all lights changes by up to 60 %, their direction too");
  keys("camera", &p.camera, 0.0, 1.0,
       "1: the robot's cameras move by up to 2 cm and 0.05 rad per axis");
  keys("friction", &p.friction, 0.0, 1.0,
       "1: that of objects and finger pads changes by up to 50 %");
  return p;
}

}  // namespace

bool RandomizationParams::ChangesModel() const {
  return light > 0.0 || colours > 0.0 || camera_position > 0.0 || camera_rotation > 0.0 ||
         friction > 0.0 || mass > 0.0;
}

std::vector<PerturbationSpec> PerturbationParams::Kinds() {
  return {{.name = "camera", .is_visual = true},
          {.name = "friction"},
          {.name = "light", .is_visual = true}};
}

std::vector<std::string> Params::ObsModeNames() {
  std::vector<std::string> names;
  for (const auto& [name, mode] : ObsModes()) names.push_back(name);
  return names;
}

Params Params::FromConfig(const Config& config) {
  Params p;
  std::vector<std::pair<std::string, const TaskKind*>> tasks;
  for (const TaskKind* task : TaskKinds()) tasks.emplace_back(task->name, task);
  const ConfigKeys keys(config);
  keys.Choice("task", &p.task, tasks, "what the robot has to do");
  keys.Choice("obs", &p.obs, ObsModes(), "numbers, colour images, or colour and depth images");
  keys("image_width", &p.image_width, 1, kMaxImageSize, "pixels");
  keys("image_height", &p.image_height, 1, kMaxImageSize, "pixels");
  keys.Choice("depth_dtype", &p.depth_dtype,
              {{"uint16", DType::kUInt16}, {"float32", DType::kFloat32}},
              "depth in millimetres (uint16) or metres (float32)");
  keys("head_pitch", &p.head_pitch, -0.52, 0.52, "how far the head looks down, in rad");
  keys.Choice("render", &p.is_tiled, {{"tiled", true}, {"scene", false}},
              "videos show all cameras, or the scene alone");
  keys("scene_dir", &p.scene_dir,
       "folder of the scenes; empty for the ones that belong to dp_bench");
  if (config.Has("conveyor")) {
    const ConfigKeys belt(config.Sub("conveyor", "of the task conveyor_pick"));
    belt("speed", &p.task_settings.belt_speed, 0.0, 0.5,
         "the belt's largest speed in m/s; each episode has 0.6 to 1 of it. 0: it rests");
    belt("change", &p.task_settings.belt_change, 0.0, 1.0,
         "every 0.5 s the speed is drawn again, between 1 - change and 1 of the largest; 0: it is "
         "constant in an episode");
  }
  p.randomization = ReadRandomization(config.Sub(
      "randomization",
      "what differs between episodes beside the start; half widths of uniform draws from the "
      "episode's seed"));
  if (config.Has("perturb")) {
    p.perturbation = ReadPerturbation(config.Sub(
        "perturb",
        "what makes an evaluation harder than the task; drawn per episode from its seed"));
  }
  return p;
}

}  // namespace dp_bench::kuavo_dualarm
