// Selection bias: the best of several runs owes part of its success rate to the seeds it was chosen
// on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dp_bench::compare {

struct BestOfRuns {
  std::size_t best = 0;   // the first with the highest rate
  int n_seeds = 0;        // shared by all runs
  double optimism = 0.0;  // how much its rate is too high on average
  double bound = 0.0;     // the same if all runs were equally good: the worst case
};

/// Estimates the selection bias by a bootstrap over the seeds. Each resample is used for all runs,
/// which keeps the correlation between runs. The true rates are taken to be the observed rates,
/// shrunk towards their mean by the share of their spread that the seeds alone explain (James and
/// Stein 1961). Without that shrinkage, equally good runs would seem to differ, and half of the
/// optimism would be missed. `outcomes` has one row of 0 and 1 per run: at least two rows, at least
/// two seeds, all in the same order of seeds. Equal outcomes give equal results.
BestOfRuns JudgeBestOf(std::span<const std::vector<std::uint8_t>> outcomes);

}  // namespace dp_bench::compare
