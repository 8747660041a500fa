// Where two recordings of one episode part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dp_bench/array.h"

namespace dp_bench::compare {

/// The first value that is not the same, bit for bit.
struct TraceDifference {
  std::int64_t step = 0;  // executed steps before it
  std::string field;      // "obs.agent_pos[1]", "action[3]", "obs_sha256.image", "end"
  std::string a;          // the value, with as many digits as tell it apart
  std::string b;
};

/// Compares two traces (rollout/episode_trace.h) in the order in which things happen: the
/// observation before a step, its action, and what came of it. "end" when one episode ends where
/// the other goes on. Throws Error{kData} when they do not hold the same fields.
std::optional<TraceDifference> FindFirstDifference(const ArrayMap& a, const ArrayMap& b);

}  // namespace dp_bench::compare
