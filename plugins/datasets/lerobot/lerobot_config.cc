#include "lerobot_config.h"

#include <fmt/format.h>

#include "dp_bench/error.h"

namespace dp_bench::lerobot {
namespace {

constexpr double kMinMemoryLimitMb = 1.0;
constexpr double kMaxMemoryLimitMb = 1e7;
constexpr double kMinToleranceS = 1e-9;

}  // namespace

KeyConfig KeyConfig::FromConfig(const Config& key) {
  KeyConfig config{
      .feature = key.GetOptional<std::string>("feature",
                                              "the feature, such as observation.state; none for "
                                              "that of the key without a map")
                     .value_or(""),
      .type = std::nullopt,
      .names = key.Get<std::vector<std::string>>(
          "names", {},
          "channels to take, by the names in meta/info.json and in this order; numbers only, none "
          "for all"),
      .begin = key.GetOptional<std::int64_t>("begin",
                                             "first channel to take, instead of names; none for 0"),
      .end = key.GetOptional<std::int64_t>(
          "end", "index after the last channel to take, instead of names; none for all"),
      .shape = key.Get<std::vector<std::int64_t>>(
          "shape", {}, "shape of the key, such as [9, 2]; none for a list of the numbers")};
  const std::string type = key.GetChoice(
      "type", {"auto", "rgb", "depth"}, "colour or depth images; auto is what meta/info.json says");
  if (type != "auto") config.type = type == "rgb" ? KeyType::kRgb : KeyType::kDepth;
  config.mm_per_level = key.GetOptionalInRange(
      "mm_per_level", 1e-3, 1e4,
      "mm per level of depth that is stored in pictures with 8 bits, as in recordings of Kuavo "
      "robots; required for them");
  return config;
}

LeRobotConfig LeRobotConfig::FromConfig(const Config& params) {
  const LeRobotConfig defaults;
  LeRobotConfig config{
      .path = params.Require<std::string>(
          "path", "the folder that contains meta/info.json, relative to the current directory"),
      .tasks = params.Get<std::vector<std::string>>(
          "tasks", {}, "reads only episodes with one of these tasks; none for all episodes")};
  config.tolerance_s = params.GetInRange(
      "tolerance_s", defaults.tolerance_s, kMinToleranceS, 1.0,
      "how far a time may be from frame / fps, and a video frame from its time, in seconds");
  config.memory_limit_mb = params.GetInRange(
      "memory_limit_mb", defaults.memory_limit_mb, kMinMemoryLimitMb, kMaxMemoryLimitMb,
      "MiB for everything that the reader holds: numbers, open videos, and decoded pictures, which "
      "are kept as far as they fit");
  if (!params.Has("keys")) return config;

  const Config keys = params.Sub(
      "keys",
      "where each key comes from; if left out, every feature with numbers or pictures is a "
      "key, except next.* and LeRobot's own columns, without a leading observation. or "
      "observation.images.");
  for (const std::string& name : keys.Keys())
    config.keys[name] = KeyConfig::FromConfig(keys.Sub(name));
  if (!config.keys.contains("action")) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{} needs the key 'action', such as {{\"feature\": \"action\"}}",
                            params.Where("keys")));
  }
  return config;
}

}  // namespace dp_bench::lerobot
