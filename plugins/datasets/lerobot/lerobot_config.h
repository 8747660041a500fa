// The params of the dataset plugin "lerobot": which folder, which features are keys, and the
// limits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/config.h"
#include "dp_bench/dataset.h"

namespace dp_bench::lerobot {

/// The source of a key.
struct KeyConfig {
  std::string feature;                // empty: that of the key without a map
  std::optional<KeyType> type;        // none: what info.json says
  std::vector<std::string> names;     // the channels, in this order; none for all
  std::optional<std::int64_t> begin;  // or a range of them
  std::optional<std::int64_t> end;
  Shape shape;                         // of the key, if its numbers are not a list
  std::optional<double> mm_per_level;  // depth in pictures of 8 bits

  static KeyConfig FromConfig(const Config& key);
};

/// {"path": "lerobot/pusht", "keys": {"agent_pos": {"feature": "observation.state"}, "action":
/// {"feature": "action", "names": ["x", "y"]}, "image": {"feature": "observation.image"}}}. Without
/// "keys", a data set that dp_bench wrote has the keys that it was written from. Of any other,
/// every feature with numbers or pictures is a key, except LeRobot's own columns and next.*; its
/// name loses the beginning "observation.images." or "observation.".
struct LeRobotConfig {
  std::filesystem::path path;
  std::map<std::string, KeyConfig> keys;
  std::vector<std::string> tasks;
  double tolerance_s = 1e-4;
  double memory_limit_mb = 4096.0;

  static LeRobotConfig FromConfig(const Config& params);
};

}  // namespace dp_bench::lerobot
