#include "compare/graded_evidence.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/errors.h"

namespace dp_bench::compare {
namespace {

struct QuadratureNode {
  double x, weight;
};

// Gauss-Legendre on (0, 1): the roots of the Legendre polynomial by Newton's method (Press et al.,
// "Numerical Recipes", 4.6). Exact for polynomials of degree 2 n - 1.
std::vector<QuadratureNode> GaussLegendre(int n) {
  std::vector<QuadratureNode> nodes;
  for (int i = 0; i < n; ++i) {
    double z = std::cos(std::numbers::pi * (i + 0.75) / (n + 0.5));
    double slope = 1.0;
    for (int step = 0; step < 20; ++step) {
      double value = 1.0;
      double before = 0.0;
      for (int j = 0; j < n; ++j) {
        const double next = ((2.0 * j + 1.0) * z * value - j * before) / (j + 1.0);
        before = value;
        value = next;
      }
      slope = n * (z * value - before) / (z * z - 1.0);
      z -= value / slope;
    }
    nodes.push_back({.x = 0.5 * (1.0 - z), .weight = 1.0 / ((1.0 - z * z) * slope * slope)});
  }
  return nodes;
}

constexpr int kFailBets = 256;
constexpr int kPassBets = 24;       // as PassEvidence
constexpr int kAddsPerScaling = 8;  // factors between 1e-6 and 40, so doubles cannot overflow

}  // namespace

BetMixture BetMixture::AgainstNoDrop() {
  static const std::vector<QuadratureNode> kNodes = GaussLegendre(kFailBets);
  BetMixture mixture;
  for (const QuadratureNode& node : kNodes) mixture.AddBet(1.0, -node.x, node.weight);
  return mixture;
}

BetMixture BetMixture::AgainstDropOf(double margin) {
  DPB_ASSERT(margin > -1.0 && margin < 1.0);
  BetMixture mixture;
  for (int k = 0; k < kPassBets; ++k) {
    const double bet = (k + 0.5) / kPassBets / (1.0 - margin);
    mixture.AddBet(1.0 + bet * margin, bet, 1.0 / kPassBets);
  }
  return mixture;
}

void BetMixture::AddBet(double base, double slope, double weight) {
  base_.push_back(base);
  slope_.push_back(slope);
  weight_.push_back(weight);
  wealth_.push_back(1.0);
}

void BetMixture::Add(double change) {
  DPB_ASSERT(change >= -1.0 && change <= 1.0);
  const double* const base = base_.data();
  const double* const slope = slope_.data();
  double* const wealth = wealth_.data();
  const std::size_t n_bets = wealth_.size();
  for (std::size_t k = 0; k < n_bets; ++k) wealth[k] *= base[k] + slope[k] * change;
  if (++n_since_scaled_ < kAddsPerScaling) return;
  n_since_scaled_ = 0;
  const double largest = *std::ranges::max_element(wealth_);
  log_scale_ += std::log(largest);
  for (double& share : wealth_) share /= largest;
}

double BetMixture::Log() const {
  double sum = 0.0;
  for (std::size_t k = 0; k < wealth_.size(); ++k) sum += weight_[k] * wealth_[k];
  return log_scale_ + std::log(sum);
}

}  // namespace dp_bench::compare
