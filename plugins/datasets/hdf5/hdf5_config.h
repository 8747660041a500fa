// The params of the dataset plugin "hdf5".
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "dp_bench/config.h"
#include "dp_bench/dataset.h"

namespace dp_bench::hdf5 {

/// The source of a key.
struct KeyConfig {
  std::string array;  // below the group of an episode; empty: that of the key without a map
  std::optional<KeyType> type;  // none: what the array looks like
  std::optional<std::int64_t> begin;
  std::optional<std::int64_t> end;
};

/// {"path": "demos.hdf5", "filter_key": "train", "keys": {"agent_pos": {"array":
/// "obs/robot0_eef_pos"}, "image": {"array": "obs/agentview_image"}, "action": {"array":
/// "actions"}}}. Without "keys", every array of observations with numbers or pictures is a key with
/// its name.
struct Hdf5Config {
  std::filesystem::path path;
  std::optional<std::string> filter_key;
  std::optional<double> fps;
  std::map<std::string, KeyConfig> keys;
  double memory_limit_mb = 4096.0;

  static Hdf5Config FromConfig(const Config& params);
};

}  // namespace dp_bench::hdf5
