#include "hdf5_config.h"

#include <fmt/format.h>

#include "data/zarr/attributes.h"
#include "dp_bench/error.h"

namespace dp_bench::hdf5 {
namespace {

constexpr double kMinMemoryLimitMb = 0.01;
constexpr double kMaxMemoryLimitMb = 1e7;

KeyConfig ReadKey(const Config& key) {
  KeyConfig config{
      .array = key.GetOptional<std::string>(
                      "array",
                      "the array, relative to the group of an episode, such as obs/robot0_eef_pos; "
                      "none for that of the key without a map")
                   .value_or(""),
      .type = std::nullopt,
      .begin = key.GetOptional<std::int64_t>(
          "begin", "first element of a step to take; low_dim only, none for 0"),
      .end = key.GetOptional<std::int64_t>("end",
                                           "index after the last element to take; none for all")};
  const std::string type =
      key.GetChoice("type", {"auto", "low_dim", "rgb", "depth"},
                    "numbers, colour or depth images; auto is what shape and dtype say");
  if (type != "auto") {
    config.type = type == "rgb"     ? KeyType::kRgb
                  : type == "depth" ? KeyType::kDepth
                                    : KeyType::kLowDim;
  }
  return config;
}

}  // namespace

Hdf5Config Hdf5Config::FromConfig(const Config& params) {
  const Hdf5Config defaults;
  Hdf5Config config{
      .path = params.Require<std::string>(
          "path",
          "an HDF5 file, or a folder with *.hdf5 or *.h5, relative to the current directory"),
      .filter_key = params.GetOptional<std::string>(
          "filter_key",
          "reads only the demonstrations that this list in mask/ names; none for all")};
  config.fps = params.GetOptionalInRange(
      "fps", zarr::kMinFps, zarr::kMaxFps,
      "steps per second; none for control_freq of robomimic's env_args, or the attribute fps");
  config.memory_limit_mb = params.GetInRange(
      "memory_limit_mb", defaults.memory_limit_mb, kMinMemoryLimitMb, kMaxMemoryLimitMb,
      "MiB for numbers, which are read at once, and pictures, which are kept as far as they fit");
  if (!params.Has("keys")) return config;

  const Config keys = params.Sub(
      "keys",
      "where each key comes from; if left out, every array of observations with numbers or "
      "pictures is a key");
  for (const std::string& name : keys.Keys()) config.keys[name] = ReadKey(keys.Sub(name));
  if (!config.keys.contains("action")) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{} needs the key 'action', such as {{\"array\": \"actions\"}}",
                            params.Where("keys")));
  }
  return config;
}

}  // namespace dp_bench::hdf5
