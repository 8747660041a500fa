// numpy's Generator.choice without replacement, to the bit: SeedSequence (O'Neill's seed_seq
// design) seeds a PCG64 XSL-RR generator (O'Neill 2014); bounded integers after Lemire 2019 ("Fast
// random integer generation in an interval"). Only splits use it, so that they equal
// diffusion_policy's.
#pragma once

#include <cstdint>
#include <vector>

namespace dp_bench {

/// `numpy.random.default_rng(seed).choice(n, size, replace=False)`, in numpy's order.
/// Throws Error{kInternal} unless 0 <= size <= n.
std::vector<std::int64_t> NumpyChoice(std::uint64_t seed, std::int64_t n, std::int64_t size);

}  // namespace dp_bench
