// One plan of a diffusion policy from noise to actions, step by step.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::run {

/// The action sequence at one point of its way.
struct DenoisingStep {
  std::optional<int> timestep;             // of its noise; none: the end, or the policy names none
  std::vector<std::vector<float>> sample;  // [T, D], normalized
};

struct Denoising {
  std::uint64_t seed = 0;      // of the episode whose observation was planned for
  std::uint64_t env_step = 0;  // its steps executed before
  int n_steps = 0;             // calls of the denoiser
  int first_executed = 0;      // To - 1: rows [first_executed, first_executed + n_executed) of the
  int n_executed = 0;          // Ta    last sample are the action chunk
  int action_dim = 0;          // Da; the samples have its first D
  std::vector<DenoisingStep> steps;  // the noise and the plan among them
};

/// {seed, env_step, n_steps, first_executed, n_executed, action_dim, steps: [{timestep, sample}]},
/// numbers of the samples to 4 decimals.
nlohmann::json ToJson(const Denoising& denoising);

/// The inverse. Throws Error{kData} naming `origin` when the text is something else, or its samples
/// differ in shape.
Denoising ParseDenoising(std::string_view text, const std::string& origin);

}  // namespace dp_bench::run
