// The order in which an epoch visits the samples.
#pragma once

#include <cstdint>
#include <vector>

namespace dp_bench {

/// A permutation of {0, ..., n - 1} that is a function of (seed, epoch, n) alone.
/// Throws Error{kData} for n of 2^32 or more.
std::vector<std::int64_t> EpochOrder(std::uint64_t seed, std::uint64_t epoch, std::int64_t n);

}  // namespace dp_bench
