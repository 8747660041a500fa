#include "compare/change_evidence.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

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
constexpr int kAddsPerScaling = 8;  // factors between 1e-6 and 100, so doubles cannot overflow

// of PassEvidence
constexpr std::size_t kConstantBets = 24;
constexpr double kConstantWeight = 0.25;  // of all of them
struct Assumption {
  double drop;  // as a share of the margin
  double weight;
};
constexpr Assumption kAssumptions[] = {{.drop = 0.0, .weight = 0.5}, {.drop = 0.5, .weight = 0.25}};
constexpr double kLargestShare = 0.98;  // of the bet that can go bankrupt
constexpr double kPriorSquares = 1.0;
constexpr double kPriorChanges = 2.0;

const std::vector<QuadratureNode>& FailNodes() {
  static const std::vector<QuadratureNode> kNodes = GaussLegendre(kFailBets);
  return kNodes;
}

std::vector<double> FailWeights() {
  std::vector<double> weights;
  for (const QuadratureNode& node : FailNodes()) weights.push_back(node.weight);
  return weights;
}

std::vector<double> PassWeights() {
  std::vector<double> weights(kConstantBets, kConstantWeight / static_cast<double>(kConstantBets));
  for (const Assumption& assumption : kAssumptions) weights.push_back(assumption.weight);
  return weights;
}

}  // namespace

MeanWealth::MeanWealth(std::vector<double> weights)
    : weight_(std::move(weights)), wealth_(weight_.size(), 1.0) {}

void MeanWealth::Add(double change, const double* base, const double* slope) {
  DPB_ASSERT(change >= -1.0 && change <= 1.0);
  double* const wealth = wealth_.data();
  const std::size_t n = wealth_.size();
  for (std::size_t k = 0; k < n; ++k) wealth[k] *= base[k] + slope[k] * change;
  if (++n_since_scaled_ < kAddsPerScaling) return;
  n_since_scaled_ = 0;
  const double largest = *std::ranges::max_element(wealth_);
  log_scale_ += std::log(largest);
  for (double& share : wealth_) share /= largest;
}

double MeanWealth::Log() const {
  double sum = 0.0;
  for (std::size_t k = 0; k < wealth_.size(); ++k) sum += weight_[k] * wealth_[k];
  return log_scale_ + std::log(sum);
}

FailEvidence::FailEvidence() : wealth_(FailWeights()) {}

void FailEvidence::Add(double change) {
  static const std::vector<double> kBase(kFailBets, 1.0);
  static const std::vector<double> kSlope = [] {
    std::vector<double> slope;
    for (const QuadratureNode& node : FailNodes()) slope.push_back(-node.x);
    return slope;
  }();
  wealth_.Add(change, kBase.data(), kSlope.data());
}

PassEvidence::PassEvidence(double margin) : margin_(margin), wealth_(PassWeights()) {
  DPB_ASSERT(margin > -1.0 && margin < 1.0);
  for (std::size_t k = 0; k < kConstantBets; ++k) {
    const double share = (static_cast<double>(k) + 0.5) / static_cast<double>(kConstantBets);
    slope_.push_back(share / (1.0 - margin));
  }
  slope_.resize(wealth_.n_gamblers());
  for (const double bet : slope_) base_.push_back(1.0 + bet * margin);
  ChooseBets();
}

void PassEvidence::ChooseBets() {
  const double squares =
      (sum_of_squares_ + kPriorSquares) / (static_cast<double>(n_changes_) + kPriorChanges);
  for (std::size_t i = 0; i < std::size(kAssumptions); ++i) {
    const double mean = std::max(0.0, margin_) * (1.0 - kAssumptions[i].drop);
    const double bet = std::min(mean / (squares + mean * mean), kLargestShare / (1.0 - margin_));
    slope_[kConstantBets + i] = bet;
    base_[kConstantBets + i] = 1.0 + bet * margin_;
  }
}

void PassEvidence::Add(double change) {
  wealth_.Add(change, base_.data(), slope_.data());
  ++n_changes_;
  sum_of_squares_ += change * change;
  ChooseBets();
}

}  // namespace dp_bench::compare
