// How the features of a LeRobot dataset become keys.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "data/lerobot/camera.h"
#include "data/lerobot/metadata.h"
#include "data/reader/keyed_dataset.h"

namespace dp_bench::lerobot {

using reader::KeyConfig;
using reader::KeyConfigs;

/// An entry of the param `keys`, and of the file in which dp_bench notes what it wrote.
KeyConfig ReadFeatureKey(const Config& key);

/// The keys of a dataset: those `asked` for, or all. One that is asked for without a feature has
/// the one that it has among all. Throws Error{kConfig} if there is none, Error{kData} if two
/// features would have the same key, or if there is no action.
KeyConfigs ChooseKeys(const Metadata& metadata, const KeyConfigs& asked);

/// The feature of a key. Throws Error{kConfig} if it does not exist or holds texts.
const Feature& FindFeature(const Metadata& metadata, const std::string& key,
                           const std::string& feature);

struct NumbersKey {
  KeySpec spec;
  std::vector<std::size_t> channels;  // of the feature, in this order; empty for all
};

struct CameraKey {
  KeySpec spec;
  std::optional<DepthScale> depth;  // of a depth key
};

/// Throw Error{kConfig} naming the key and the feature if they do not fit.
NumbersKey MapNumbers(const std::string& name, const Feature& feature, const KeyConfig& config);
CameraKey MapCamera(const std::string& name, const Feature& feature, const KeyConfig& config);

}  // namespace dp_bench::lerobot
