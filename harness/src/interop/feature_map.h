// Which features of a LeRobot policy are which observation keys of dp_bench, and what follows for
// the weights: dp_bench joins its keys to a condition in another order. Torch-free.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/spec.h"
#include "interop/policy_config.h"

namespace dp_bench::interop {

/// A feature and the keys that it consists of, one after the other. A camera has one key.
struct FeatureBinding {
  LerobotFeature feature;
  std::vector<std::string> keys;

  bool operator==(const FeatureBinding&) const = default;
};

/// Assigns every observation key of `shape_meta` to a feature. `asked`: "<feature>=<key>,<key>".
/// What is not asked for is assigned by equal names, a single camera to the only image, and a key
/// of numbers to the only feature of its size. Throws Error{kUsage} if that leaves a feature or a
/// key, Error{kShape} if sizes differ.
std::vector<FeatureBinding> BindFeatures(const std::vector<LerobotFeature>& features,
                                         const ShapeMeta& shape_meta,
                                         std::span<const std::string> asked);

/// The features of a dataset that is written for LeRobot, with their keys, in the order of
/// LeRobot's policies. What is not asked for: keys keep names that LeRobot has; another image is
/// "observation.images.<key>"; numbers are joined to "observation.state", and if there is no
/// camera, all but the first of these keys to "observation.environment_state", because LeRobot's
/// policies want one of both. Throws Error{kUsage} for a request that does not fit the keys.
std::vector<FeatureBinding> NameFeatures(const ShapeMeta& shape_meta,
                                         std::span<const std::string> asked);

/// The same for a policy of dp_bench. Throws Error{kConfig} or Error{kShape} for keys that
/// LeRobot's policy cannot have.
std::vector<FeatureBinding> MakeFeatures(const ShapeMeta& shape_meta,
                                         std::span<const std::string> asked);

/// The param of ACT that has the keys of the state of the robot, or of the env, in their order.
const char* ActKeysParam(LerobotFeatureType type);

/// How a condition of dp_bench is put together from LeRobot's.
struct ConditionOrder {
  std::int64_t n_obs_steps = 0;
  std::int64_t diffusion_step_embed_dim = 0;  // columns before those of the observations
  std::vector<std::int64_t> columns;  // of one observation step: LeRobot's column of each of ours
  std::vector<std::size_t> cameras;   // LeRobot's encoder of each of ours; empty if they share one
};

ConditionOrder MakeConditionOrder(const std::vector<FeatureBinding>& bindings,
                                  const ShapeMeta& shape_meta, const LerobotPolicyConfig& config);

/// Reorders the columns of the weights that see the condition, and the encoders of the cameras.
/// Throws Error{kCheckpoint} naming a tensor that does not have the columns.
ArrayMap FromLerobotOrder(const ArrayMap& weights, const ConditionOrder& order);
ArrayMap ToLerobotOrder(const ArrayMap& weights, const ConditionOrder& order);

}  // namespace dp_bench::interop
