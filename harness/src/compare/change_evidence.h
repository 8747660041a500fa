// Did a score in [0, 1] drop? Evidence from paired changes, new score minus old, each in [-1, 1].
// Outcomes are such scores: a seed is lost (-1), gained (1) or the same (0). The evidence holds at
// every look, for any dependence of a change on the earlier ones, as long as its mean given the
// past is on the side of the hypothesis (Waudby-Smith and Ramdas 2024, "Estimating means of bounded
// random variables by betting"). Order matters: add changes in the order of the seed list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dp_bench::compare {

/// The mean wealth of several gamblers, of whom each starts with 1.
class MeanWealth {
 public:
  explicit MeanWealth(std::vector<double> weights);  // which sum to 1

  std::size_t n_gamblers() const { return wealth_.size(); }

  /// Multiplies the wealth of gambler k by base[k] + slope[k] * change, which are positive.
  void Add(double change, const double* base, const double* slope);

  /// ln of the mean; 0 before the first change, never -infinity.
  double Log() const;

 private:
  std::vector<double> weight_;
  std::vector<double> wealth_;  // divided by exp(log_scale_), which keeps it in range
  double log_scale_ = 0.0;
  int n_since_scaled_ = 0;
};

/// Evidence against "the mean change is 0 or more". A bet l multiplies the wealth by 1 - l *
/// change. The bets are uniform on (0, 1), integrated with 256 Gauss-Legendre nodes, so that
/// changes of -1, 0 and 1 give LogFailEvidence.
class FailEvidence {
 public:
  FailEvidence();
  void Add(double change);
  double Log() const { return wealth_.Log(); }

 private:
  MeanWealth wealth_;
};

/// Evidence against "the mean change is -margin or less". A bet l multiplies the wealth by
/// 1 + l * (change + margin). A quarter of the stake is on 24 bets that are spread evenly over
/// those that cannot go bankrupt. The rest is on bets that are nearly the best if the mean change
/// is 0 (half of the stake) or -margin / 2 (a quarter), given how much the changes before
/// scattered: with m = margin or margin / 2 and v the mean of their squares, which starts at 1/2
/// with the weight of two changes, l = m / (v + m^2). That finds the best bet where changes are
/// frequent and the margin is small: there, few of the 24 are near it.
class PassEvidence {
 public:
  /// `margin` in (-1, 1). A margin below 0 asks whether the mean rose by more than -margin; then
  /// only the 24 bets are placed.
  explicit PassEvidence(double margin);
  void Add(double change);
  double Log() const { return wealth_.Log(); }

 private:
  void ChooseBets();

  double margin_;
  MeanWealth wealth_;
  std::vector<double> base_, slope_;  // of each gambler, for the next change
  std::int64_t n_changes_ = 0;
  double sum_of_squares_ = 0.0;
};

}  // namespace dp_bench::compare
