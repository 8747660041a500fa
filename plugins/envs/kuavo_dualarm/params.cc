#include "params.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr std::int64_t kMaxImageSize = 4096;

int ReadSize(const Config& config, std::string_view key, int default_value,
             const KeyMeaning& meaning) {
  return static_cast<int>(
      config.GetInRange(key, std::int64_t{default_value}, std::int64_t{1}, kMaxImageSize, meaning));
}

ObsMode ReadObsMode(const Config& config) {
  const std::string mode =
      config.GetChoice("obs", ObsModeNames(), "numbers, colour images, or colour and depth images");
  if (mode == "rgb") return ObsMode::kRgb;
  return mode == "rgbd" ? ObsMode::kRgbd : ObsMode::kState;
}

}  // namespace

std::vector<std::string> ObsModeNames() { return {"state", "rgb", "rgbd"}; }

RandomizationParams RandomizationParams::FromConfig(const Config& config) {
  RandomizationParams params;
  params.object_pose = config.GetInRange("object_pose", params.object_pose, 0.0, 1.0,
                                         "share of the task's start ranges that is used");
  params.light = config.GetInRange("light", params.light, 0.0, 1.0,
                                   "relative change of brightness; half of it of the direction");
  params.colours = config.GetInRange("colours", params.colours, 0.0, 1.0,
                                     "floor, table and objects: 0 own colours, 1 random ones");
  params.camera_position = config.GetInRange("camera_position", params.camera_position, 0.0, 0.1,
                                             "shift of the robot's cameras per axis, in m");
  params.camera_rotation = config.GetInRange("camera_rotation", params.camera_rotation, 0.0, 0.5,
                                             "turn of the robot's cameras per axis, in rad");
  params.friction = config.GetInRange("friction", params.friction, 0.0, 0.9,
                                      "relative change for objects and finger pads");
  params.mass = config.GetInRange("mass", params.mass, 0.0, 0.9, "relative change for the objects");
  params.control_delay =
      config.GetInRange("control_delay", params.control_delay, 0.0, 0.1,
                        "longest delay of the control in s; drawn from 0 to this");
  params.action_noise =
      config.GetInRange("action_noise", params.action_noise, 0.0, 0.5,
                        "standard deviation of noise on every joint target, in rad");
  return params;
}

bool RandomizationParams::ChangesModel() const {
  return light > 0.0 || colours > 0.0 || camera_position > 0.0 || camera_rotation > 0.0 ||
         friction > 0.0 || mass > 0.0;
}

std::vector<PerturbationSpec> PerturbationParams::Kinds() {
  return {{.name = "camera", .is_visual = true},
          {.name = "friction"},
          {.name = "light", .is_visual = true}};
}

PerturbationParams PerturbationParams::FromConfig(const Config& params) {
  PerturbationParams p;
  if (!params.Has("perturb")) return p;
  const Config section = params.Sub(
      "perturb", "what makes an evaluation harder than the task; drawn per episode from its seed");
  p.light = section.GetInRange("light", p.light, 0.0, 1.0,
                               "1: brightness of all lights changes by up to 60 %, their direction "
                               "too");
  p.camera = section.GetInRange("camera", p.camera, 0.0, 1.0,
                                "1: the robot's cameras move by up to 2 cm and 0.05 rad per axis");
  p.friction = section.GetInRange("friction", p.friction, 0.0, 1.0,
                                  "1: that of objects and finger pads changes by up to 50 %");
  return p;
}

Params Params::FromConfig(const Config& config) {
  Params params;
  params.task = ParseTask(config.GetChoice("task", TaskNames(), "what the robot has to do"));
  params.obs = ReadObsMode(config);
  params.image_width = ReadSize(config, "image_width", params.image_width, "pixels");
  params.image_height = ReadSize(config, "image_height", params.image_height, "pixels");
  params.depth_dtype = ParseDType(config.GetChoice(
      "depth_dtype", {"uint16", "float32"}, "depth in millimetres (uint16) or metres (float32)"));
  params.head_pitch = config.GetInRange("head_pitch", params.head_pitch, -0.52, 0.52,
                                        "how far the head looks down, in rad");
  params.tiled = config.GetChoice("render", {"tiled", "scene"},
                                  "films show all cameras, or the scene alone") == "tiled";
  params.scene_dir = config.Get<std::string>(
      "scene_dir", "", "folder of the scenes; empty for the ones that belong to dp_bench");
  params.randomization = RandomizationParams::FromConfig(config.Sub(
      "randomization",
      "what differs between episodes beside the start; half widths of uniform draws from the "
      "episode's seed"));
  params.perturbation = PerturbationParams::FromConfig(config);
  return params;
}

}  // namespace dp_bench::kuavo_dualarm
