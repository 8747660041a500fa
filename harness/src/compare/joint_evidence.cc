#include "compare/joint_evidence.h"

#include <algorithm>
#include <cmath>

#include "dp_bench/error.h"

namespace dp_bench {

double LogMeanEvidence(std::span<const double> log_evidence) {
  DPB_ASSERT(!log_evidence.empty());
  const double largest = *std::max_element(log_evidence.begin(), log_evidence.end());
  double sum = 0.0;
  for (const double value : log_evidence) sum += std::exp(value - largest);
  return largest + std::log(sum / static_cast<double>(log_evidence.size()));
}

std::vector<bool> NameDrops(std::span<const double> log_evidence, double alpha) {
  DPB_ASSERT(alpha > 0.0 && alpha < 1.0);
  std::vector<double> sorted(log_evidence.begin(), log_evidence.end());
  std::sort(sorted.rbegin(), sorted.rend());
  // the largest k whose k-th e-value reaches K / (k alpha): all down to it are named
  const auto n = static_cast<double>(sorted.size());
  double smallest_named = INFINITY;
  for (std::size_t k = 1; k <= sorted.size(); ++k) {
    const double threshold = std::log(n / static_cast<double>(k)) - std::log(alpha);
    if (sorted[k - 1] >= threshold) smallest_named = sorted[k - 1];
  }
  std::vector<bool> is_named;
  for (const double value : log_evidence) is_named.push_back(value >= smallest_named);
  return is_named;
}

}  // namespace dp_bench
