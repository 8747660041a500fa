// The success rate on a real robot, from few real and many simulated rollouts.
#pragma once

#include <optional>

#include "compare/intervals.h"
#include "compare/pairing.h"

namespace dp_bench::compare {

struct RealRate {
  PairCounts counts;        // of the seeds with both; A is the simulation, B the robot
  RateInterval real_alone;  // of the same real rollouts, Clopper and Pearson, 95 %
  RateInterval simulated;   // of all simulated rollouts, Wilson, 95 %
  double rate = 0.0;        // with the simulated rollouts
  double low = 0.0;         // 95 %
  double high = 1.0;
  double n_equivalent = 0.0;  // as many real rollouts alone would give an interval of this width
  int n_unpaired = 0;         // real rollouts that the simulation lacks; they are left out
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RealRate, counts, real_alone, simulated, rate, low, high,
                                   n_equivalent, n_unpaired)

/// Prediction-powered inference (Angelopoulos et al. 2023; for robots: arXiv 2510.04354). The real
/// rate is the mean of P(real success | simulated success) and P(real success | simulated failure),
/// weighed by how often the simulation succeeds. Simulated rollouts without a real one give the
/// weights. A simulation that predicts nothing costs nothing; it may also be biased.
///
/// The interval is MOVER (Zou and Donner 2008) over the exact intervals of the three rates.
/// differs: the paper has an interval by betting, which holds for graded outcomes too but is wider.
/// Seeds of the real rollouts must be drawn as those of all simulated ones are.
///
/// `n_success` of `n` simulated rollouts, of the seeds in `counts` and of others, are successes.
RealRate BoundRealRate(const PairCounts& counts, int n_success, int n);

/// The same for the test episodes of a run and of a real result, paired by seed. None if they share
/// no seed.
std::optional<RealRate> BoundRealRate(const run::RunFolder& simulated, const run::RunFolder& real);

}  // namespace dp_bench::compare
