#include "params.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr std::int64_t kMaxImageSize = 4096;

int ReadSize(const Config& config, std::string_view key, int default_value) {
  return static_cast<int>(
      config.GetInRange(key, std::int64_t{default_value}, std::int64_t{1}, kMaxImageSize));
}

ObsMode ReadObsMode(const Config& config) {
  const std::string mode = config.GetChoice("obs", ObsModeNames());
  if (mode == "rgb") return ObsMode::kRgb;
  return mode == "rgbd" ? ObsMode::kRgbd : ObsMode::kState;
}

}  // namespace

std::vector<std::string> ObsModeNames() { return {"state", "rgb", "rgbd"}; }

RandomizationParams RandomizationParams::FromConfig(const Config& config) {
  RandomizationParams params;
  params.object_pose = config.GetInRange("object_pose", params.object_pose, 0.0, 1.0);
  params.light = config.GetInRange("light", params.light, 0.0, 1.0);
  params.colours = config.GetInRange("colours", params.colours, 0.0, 1.0);
  params.camera_position = config.GetInRange("camera_position", params.camera_position, 0.0, 0.1);
  params.camera_rotation = config.GetInRange("camera_rotation", params.camera_rotation, 0.0, 0.5);
  params.friction = config.GetInRange("friction", params.friction, 0.0, 0.9);
  params.mass = config.GetInRange("mass", params.mass, 0.0, 0.9);
  params.control_delay = config.GetInRange("control_delay", params.control_delay, 0.0, 0.1);
  params.action_noise = config.GetInRange("action_noise", params.action_noise, 0.0, 0.5);
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
  const Config section = params.Sub("perturb");
  p.light = section.GetInRange("light", p.light, 0.0, 1.0);
  p.camera = section.GetInRange("camera", p.camera, 0.0, 1.0);
  p.friction = section.GetInRange("friction", p.friction, 0.0, 1.0);
  return p;
}

Params Params::FromConfig(const Config& config) {
  Params params;
  params.task = ParseTask(config.GetChoice("task", TaskNames()));
  params.obs = ReadObsMode(config);
  params.image_width = ReadSize(config, "image_width", params.image_width);
  params.image_height = ReadSize(config, "image_height", params.image_height);
  params.depth_dtype = ParseDType(config.GetChoice("depth_dtype", {"uint16", "float32"}));
  params.head_pitch = config.GetInRange("head_pitch", params.head_pitch, -0.52, 0.52);
  params.tiled = config.GetChoice("render", {"tiled", "scene"}) == "tiled";
  params.scene_dir = config.Get<std::string>("scene_dir", "");
  params.randomization = RandomizationParams::FromConfig(config.Sub("randomization"));
  params.perturbation = PerturbationParams::FromConfig(config);
  return params;
}

}  // namespace dp_bench::kuavo_dualarm
