// Did a score in [0, 1] drop? Evidence from changes of any size. sequential_test.h has the same for
// outcomes, where a seed is lost, gained or the same.
#pragma once

#include <vector>

namespace dp_bench::compare {

/// Evidence about the mean of paired changes, new score minus old, each in [-1, 1]: the mean wealth
/// of constant bets (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by
/// betting"). It holds at every look, for any dependence of a change on the earlier ones, as long
/// as its mean given the past is on the side of the hypothesis. Which bets are made never depends
/// on the data.
class BetMixture {
 public:
  /// Against "the mean change is 0 or more". A bet l multiplies the wealth by 1 - l * change. The
  /// bets are uniform on (0, 1), integrated with 256 Gauss-Legendre nodes, so that changes of -1, 0
  /// and 1 give LogFailEvidence.
  static BetMixture AgainstNoDrop();

  /// Against "the mean change is -margin or less", with `margin` in (-1, 1): the 24 bets of
  /// PassEvidence.
  static BetMixture AgainstDropOf(double margin);

  void Add(double change);

  /// ln E; 0 before the first change, never -infinity.
  double Log() const;

 private:
  BetMixture() = default;
  void AddBet(double base, double slope, double weight);

  // one entry per bet, which multiplies its wealth by base + slope * change
  std::vector<double> base_, slope_, weight_;
  std::vector<double> wealth_;  // divided by exp(log_scale_), which keeps it in range
  double log_scale_ = 0.0;
  int n_since_scaled_ = 0;
};

}  // namespace dp_bench::compare
