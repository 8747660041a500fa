// Finds where two recordings of one episode diverge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dp_bench/array.h"

namespace dp_bench::compare {

/// The first value that is not equal bit for bit.
struct TraceDifference {
  std::int64_t step = 0;  // executed steps before it
  std::string field;      // "obs.agent_pos[1]", "action[3]", "obs_sha256.image", "end"
  std::string a;          // the value, with enough digits to tell it apart
  std::string b;
};

/// Element `index` of an array with these bytes, with enough digits to tell it apart.
std::string ElementText(DType dtype, std::span<const std::byte> bytes, std::size_t index);

/// Compares two traces (rollout/episode_trace.h) in the order of events: the observation before a
/// step, its action, and the step's results. The field is "end" if one episode ends before the
/// other. Throws Error{kData} if they do not have the same fields.
std::optional<TraceDifference> FindFirstDifference(const ArrayMap& a, const ArrayMap& b);

}  // namespace dp_bench::compare
