// Perturbations that need no help of the env: its actions come late, or with noise.
#pragma once

#include <memory>
#include <optional>

#include "dp_bench/config.h"
#include "dp_bench/env.h"

namespace dp_bench::rollout {

/// The section "env.perturb" of a config.
struct ActionPerturbation {
  int delay = 0;       // [control steps] until an action reaches the env
  double noise = 0.0;  // standard deviation as a fraction of the action range

  /// Nothing when the section is not there: an env that nobody perturbs has no such keys. Throws
  /// Error{kConfig} for values out of range.
  static std::optional<ActionPerturbation> FromConfig(const Config& env);
};

/// The same env, which executes at step t the action of step t - delay, until there is one the
/// first action of the episode, plus noise, cut to the action range. The noise derives from the
/// seed and the step. It keeps all abilities but StateAccess, because its state has actions too
/// that are on their way.
std::unique_ptr<Env> PerturbActions(std::unique_ptr<Env> env,
                                    const ActionPerturbation& perturbation);

}  // namespace dp_bench::rollout
