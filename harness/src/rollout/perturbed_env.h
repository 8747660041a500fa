// Perturbations that work with every env: actions arrive late, or with noise.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/env.h"

namespace dp_bench::rollout {

/// The section "env.perturb" of a config.
struct ActionPerturbation {
  int delay = 0;
  double noise = 0.0;

  /// Nothing if there is no such section. Throws Error{kConfig} for values out of range.
  static std::optional<ActionPerturbation> FromConfig(const Config& env);

  /// The keys of the section.
  static std::vector<PerturbationSpec> Kinds();
};

/// The same env, but at step t it executes the action given at step t - delay (before that, the
/// first action of the episode), plus noise, clamped to the action range. The noise derives from
/// the seed and the step. All abilities are kept except the state.
std::unique_ptr<Env> PerturbActions(std::unique_ptr<Env> env,
                                    const ActionPerturbation& perturbation);

}  // namespace dp_bench::rollout
