// The state of an env, for tests that compare or change it.
#pragma once

#include <vector>

#include "dp_bench/env.h"

namespace dp_bench {

inline std::vector<double> StateOf(const Env& env) {
  std::vector<double> state(env.spec().abilities.state_size);
  env.GetState(state);
  return state;
}

}  // namespace dp_bench
