// A small problem for tests of policies: one position, optionally a camera, an action of two
// numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dp_bench/normalizer.h"
#include "dp_bench/policy.h"
#include "train/fit_normalizer.h"

namespace dp_bench {

/// agent_pos [2], with `image_size` > 0 also image [3, image_size, image_size]; T 8, To 2, Ta 4.
inline PolicySpec SmallSpec(std::int64_t image_size = 0) {
  PolicySpec spec;
  spec.shape_meta.obs = {{.name = "agent_pos", .shape = {2}}};
  if (image_size > 0) {
    spec.shape_meta.obs.push_back({.name = "image",
                                   .type = KeyType::kRgb,
                                   .shape = {3, image_size, image_size},
                                   .dtype = DType::kUInt8});
  }
  spec.shape_meta.action = {.name = "action", .shape = {2}};
  spec.horizons = {.horizon = 8, .n_obs_steps = 2, .n_action_steps = 4};
  return spec;
}

/// Statistics for SmallSpec that leave numbers in [-1, 1] unchanged.
inline Normalizer SmallNormalizer() {
  const KeyStats stats = {
      .min = {-1, -1}, .max = {1, 1}, .mean = {0, 0}, .std = {1, 1}, .count = 2};
  return Normalizer({train::FitKey("agent_pos", stats, NormalizeMode::kLimits),
                     train::FitKey("image", {}, NormalizeMode::kImage),
                     train::FitKey("action", stats, NormalizeMode::kLimits)});
}

/// Training samples for SmallSpec(): positions in [0, 1], actions in [-1, 1].
inline Batch SmallBatch(NoiseSource& source, std::int64_t rows) {
  return {.obs = {{"agent_pos", source.Uniform(StreamId::kEnvStart, {rows, 2, 2})}},
          .action = source.Uniform(StreamId::kEnvStart, {rows, 8, 2}) * 2.0 - 1.0,
          .is_pad = torch::zeros({rows, 8}, torch::kBool)};
}

/// The same with zeros.
inline Batch ZeroBatch(std::int64_t rows) {
  return {.obs = {{"agent_pos", torch::zeros({rows, 2, 2})}},
          .action = torch::zeros({rows, 8, 2}),
          .is_pad = torch::zeros({rows, 8}, torch::kBool)};
}

/// Row i draws from seed i.
inline NoiseSource NoiseOfRows(std::int64_t rows, std::uint64_t major = 0) {
  std::vector<NoiseKey> keys;
  for (std::int64_t i = 0; i < rows; ++i) {
    keys.push_back({.seed = static_cast<std::uint64_t>(i), .major = major});
  }
  return NoiseSource(keys);
}

}  // namespace dp_bench
