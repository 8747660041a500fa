// The best of several runs owes a part of its success rate to the seeds it was chosen on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dp_bench::compare {

struct BestOfRuns {
  std::size_t best = 0;   // the first with the highest rate
  int n_seeds = 0;        // that all runs share
  double optimism = 0.0;  // by how much its rate is too high, on average
  double bound = 0.0;     // the same if all runs were equally good, the worst case
};

/// What a choice of the best costs, by a bootstrap over the seeds: each resample is one for all
/// runs, so that what they have in common stays. The true rates are taken to be those seen, drawn
/// towards their mean by the share of their spread that the seeds alone explain (as James and Stein
/// 1961): with rates as seen, equal runs would seem to differ, and half of the optimism would be
/// missed. `outcomes` has one row of 0 and 1 per run, at least two of at least two seeds, all in
/// the same order of seeds. Equal outcomes give equal results.
BestOfRuns JudgeBestOf(std::span<const std::vector<std::uint8_t>> outcomes);

}  // namespace dp_bench::compare
