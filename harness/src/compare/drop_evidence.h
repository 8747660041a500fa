// Evidence about a drop of the success rate between two policies on paired seeds. Each quantity is
// an e-value: if its hypothesis holds, its mean is at most 1 at every time. So it reaches 1/alpha
// with a probability of at most alpha, no matter how often you look and when you stop (Ville 1939;
// Shafer 2021; Ramdas et al. 2023, "Game-theoretic statistics and safe anytime-valid inference").
// All values are natural logarithms.
#pragma once

#include <array>
#include <span>
#include <vector>

namespace dp_bench::compare {

/// How the outcomes of the seeds changed so far, from the old policy to the new one.
struct OutcomeCounts {
  int n_lost = 0;    // success before, not now
  int n_gained = 0;  // success now, not before
  int n_same = 0;

  int n_pairs() const { return n_lost + n_gained + n_same; }
  bool operator==(const OutcomeCounts&) const = default;
};

/// ln E against "no drop", which means that at most half of the changed seeds are lost. This is
/// McNemar's question with a uniform prior on (1/2, 1) for the share of lost seeds.
double LogFailEvidence(const OutcomeCounts& counts);

/// Evidence against "the success rate dropped by `margin` or more": the mean wealth of 24 constant
/// bets on the change per seed (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random
/// variables by betting").
class PassEvidence {
 public:
  /// `margin` in (-1, 1). A negative margin asks whether the rate rose by more than -margin.
  explicit PassEvidence(double margin);

  /// ln E; never -infinity.
  double Log(const OutcomeCounts& counts) const;

 private:
  // ln of the factor that multiplies a bet's wealth
  struct Bet {
    double on_lost, on_gained, on_same;
  };
  std::array<Bet, 24> bets_;
};

/// The drop of the success rate, old minus new, in [-1, 1].
struct DropInterval {
  double drop = 0.0;  // observed; 0 without pairs
  double low = -1.0;
  double high = 1.0;
};

/// The drops that the evidence does not rule out. They cover the true drop at all looks together
/// with a probability of at least `confidence`. The interval is wider than one for a single look.
DropInterval AnytimeDropInterval(const OutcomeCounts& counts, double confidence = 0.95);

// Evidence about several tasks at once, from one e-value of each. It holds for any dependence
// between the tasks: they may share seeds, policy and env. All values are natural logarithms.

/// ln of the mean of the e-values. The mean is an e-value against "no task dropped" (Vovk and Wang
/// 2021, "E-values: calibration, combination and applications"). Needs at least one value.
double LogMeanEvidence(std::span<const double> log_evidence);

/// The e-BH procedure (Wang and Ramdas 2022, "False discovery rate control with e-values"): which
/// tasks are shown to have dropped, in the order given. On average, at most a share `alpha` (in (0,
/// 1)) of the named tasks did not drop. If a task is named, the mean evidence is at least 1/alpha.
std::vector<bool> NameDrops(std::span<const double> log_evidence, double alpha);

}  // namespace dp_bench::compare
