// The vocabulary that dataset, policy and env share: shape_meta and the horizons of Diffusion
// Policy (Chi et al. 2023). A run has one shape_meta.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/config.h"
#include "dp_bench/export.h"

namespace dp_bench {

/// The content of a key: numbers, a colour image, a depth image, or the numbers that tell a policy
/// its task. Those are constant within an episode and come from the harness (section task_key of a
/// config), not from the env or the data.
enum class KeyType { kLowDim, kRgb, kDepth, kTask };

DPB_API std::string_view Name(KeyType type);  // "low_dim", "rgb", "depth", "task"

/// One observation or action key of one time step.
struct DPB_API KeySpec {
  std::string name;
  KeyType type = KeyType::kLowDim;
  Shape shape;                    // usual notation: [D...], [C, H, W] for rgb and depth
  DType dtype = DType::kFloat32;  // low_dim and task float32, rgb uint8, depth uint16 [mm] or
                                  // float32 [m]

  bool is_image() const { return type == KeyType::kRgb || type == KeyType::kDepth; }

  /// The shape in host memory: images are stored [H, W, C], everything else as `shape`.
  Shape StorageShape() const;
  std::int64_t NumElements() const;
  std::size_t ByteSize() const;

  bool operator==(const KeySpec&) const = default;
};

/// Observation keys in alphabetical order, and the action.
struct DPB_API ShapeMeta {
  std::vector<KeySpec> obs;
  KeySpec action;  // name "action", shape [Da]

  std::int64_t action_dim() const { return action.NumElements(); }

  /// Reads {"obs": {"agent_pos": {"shape": [2], "type": "low_dim"}, ...}, "action": {"shape":
  /// [2]}}.
  static ShapeMeta FromConfig(const Config& config);

  bool operator==(const ShapeMeta&) const = default;
};

/// The three horizons, and the training sequences that are cut with them. The observation window
/// ends at the current step, which is index n_obs_steps - 1 of the predicted sequence;
/// n_action_steps are executed from there.
struct DPB_API Horizons {
  int horizon = 16;        // T, predicted steps
  int n_obs_steps = 2;     // To, observed steps
  int n_action_steps = 8;  // Ta, executed steps; at most horizon - n_obs_steps + 1

  /// The last steps of an episode that are not the current step of any training sequence. By
  /// default T - Ta - To + 1, as in LeRobot: a sequence reaches Ta - 1 steps into the padding.
  std::optional<int> drop_n_last_frames = std::nullopt;
  int n_dropped_last_frames() const {
    return drop_n_last_frames.value_or(horizon - n_action_steps - n_obs_steps + 1);
  }

  /// Temporal ensembling (Zhao et al. 2023, Alg. 2): a plan at every step. The action executed is
  /// the mean of those that the plans have for the step, with weights exp(-coeff * i), i = 0 for
  /// the oldest plan. None: n_action_steps of each plan are executed.
  std::optional<double> temporal_ensemble_coeff = std::nullopt;

  /// Reads the five top-level keys; throws Error{kConfig} if they do not fit together.
  static Horizons FromConfig(const Config& config);

  bool operator==(const Horizons&) const = default;
};

/// What a policy is built for: the run's shape_meta and horizons.
struct PolicySpec {
  ShapeMeta shape_meta;
  Horizons horizons;
  std::string instruction = {};         // the task in words; may be empty
  std::vector<float> action_low = {};   // [Da], of the env; empty without one
  std::vector<float> action_high = {};  // [Da]
};

}  // namespace dp_bench
