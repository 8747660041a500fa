// What every spec of a plugin must fulfil, checked once when the plugin describes or creates
// something. The rest of the program relies on it.
#pragma once

#include <cstdint>
#include <span>

#include "dp_bench/dataset.h"
#include "dp_bench/env.h"

namespace dp_bench::plugin {

/// Throws Error{kPlugin} listing everything that does not hold together, each with what was
/// expected and what was found.
void RequireSound(const EnvSpec& spec);

/// The same for a dataset. `episode_ends`: the index after the last step of each episode.
void RequireSound(const DatasetSpec& spec, std::span<const std::int64_t> episode_ends);

/// The spec with its observations in alphabetical order.
EnvSpec WithSortedKeys(EnvSpec spec);

}  // namespace dp_bench::plugin
