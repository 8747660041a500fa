// Steps of an env in another process, executed before they are asked for.
#pragma once

#include <span>

#include "dp_bench/export.h"

namespace dp_bench::plugin {

/// A second base of envs that may execute steps early. It changes no outcome.
class DPB_API StepAhead {
 public:
  virtual ~StepAhead() = default;

  /// A promise of the caller. Until a step reports `terminated` or throws, the next calls are Step
  /// with these `actions`, [n, Da], in this order, and Observe, only after steps from
  /// `first_observed` on.
  virtual void ExpectSteps(std::span<const float> actions, int first_observed) = 0;
};

}  // namespace dp_bench::plugin
