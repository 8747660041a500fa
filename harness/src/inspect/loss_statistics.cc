// See loss_statistics.h.
#include "inspect/loss_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace dp_bench::inspect {
namespace {

constexpr double kOutlierFactor = 3.0;
constexpr std::size_t kPlateauParts = 20;
constexpr std::size_t kFewestPlateauParts = 6;
constexpr std::size_t kStepsPerPart = 5;
constexpr double kPlateauTolerance = 0.05;
constexpr double kMaxPlateauTolerance = 0.15;

/// A step with a finite loss.
struct LossStep {
  double step = 0.0;
  double loss = 0.0;
};

double MeanLoss(std::span<const LossStep> steps) {
  double sum = 0.0;
  for (const LossStep& step : steps) sum += step.loss;
  return sum / static_cast<double>(steps.size());
}

double MedianLoss(std::span<const LossStep> steps) {
  std::vector<double> losses;
  for (const LossStep& step : steps) losses.push_back(step.loss);
  const auto middle = losses.begin() + std::ssize(losses) / 2;
  std::ranges::nth_element(losses, middle);
  return *middle;
}

// The i-th of n equal parts.
std::span<const LossStep> PartAt(const std::vector<LossStep>& steps, std::size_t i, std::size_t n) {
  const std::size_t begin = i * steps.size() / n;
  return std::span(steps).subspan(begin, (i + 1) * steps.size() / n - begin);
}

// The standard error of a part's mean.
double ErrorOfMean(std::span<const LossStep> part) {
  const double mean = MeanLoss(part);
  double squares = 0.0;
  for (const LossStep& step : part) squares += (step.loss - mean) * (step.loss - mean);
  return std::sqrt(squares) / static_cast<double>(part.size());
}

// Goes back from the end while each part's mean equals that of the last fifth, within 5 % or, where
// the loss is noisier than that, three standard errors.
std::optional<LossPlateau> PlateauOf(const std::vector<LossStep>& steps) {
  if (steps.size() < kPlateauParts * kStepsPerPart) return std::nullopt;
  const double level = MeanLoss(PartAt(steps, 4, 5));
  std::size_t first = kPlateauParts;
  while (first > 0) {
    const auto part = PartAt(steps, first - 1, kPlateauParts);
    const double tolerance =
        std::clamp(3.0 * ErrorOfMean(part) / level, kPlateauTolerance, kMaxPlateauTolerance);
    if (!(std::abs(MeanLoss(part) / level - 1.0) <= tolerance)) break;
    --first;
  }
  if (kPlateauParts - first < kFewestPlateauParts) return std::nullopt;
  const std::size_t begin = first * steps.size() / kPlateauParts;
  const auto plateau = std::span(steps).subspan(begin);
  return LossPlateau{
      .first_step = plateau.front().step,
      .share = static_cast<double>(plateau.size()) / static_cast<double>(steps.size()),
      .loss = MeanLoss(plateau)};
}

void CountOutliers(const std::vector<LossStep>& steps, LossStatistics* statistics) {
  for (std::size_t i = 0; i < 10; ++i) {
    const auto tenth = PartAt(steps, i, 10);
    if (tenth.empty()) continue;
    const double limit = kOutlierFactor * MedianLoss(tenth);
    for (const LossStep& step : tenth) {
      if (!(step.loss > limit)) continue;
      if (statistics->n_outliers++ == 0) statistics->first_outlier = step.step;
      if (i > 0) ++statistics->n_late_outliers;
      statistics->last_outlier = step.step;
    }
  }
}

}  // namespace

double LossStatistics::outlier_share() const {
  return static_cast<double>(n_outliers) / static_cast<double>(n_steps);
}

double LossStatistics::late_outlier_share() const {
  return static_cast<double>(n_late_outliers) / (0.9 * static_cast<double>(n_steps));
}

std::optional<LossStatistics> StatisticsOf(const LogCurves& curves) {
  std::vector<LossStep> steps;
  for (std::size_t i = 0; i < curves.train_loss.size(); ++i) {
    if (!std::isfinite(curves.train_loss[i])) continue;
    steps.push_back({curves.steps[i], curves.train_loss[i]});
  }
  if (steps.empty()) return std::nullopt;
  const auto [lowest, highest] = std::ranges::minmax(steps, {}, &LossStep::loss);
  const std::size_t n_edge = std::min<std::size_t>(10, steps.size());
  LossStatistics statistics = {.n_steps = steps.size(),
                               .n_not_finite = curves.train_loss.size() - steps.size(),
                               .lowest = lowest.loss,
                               .highest = highest.loss,
                               .start = MeanLoss(std::span(steps).first(n_edge)),
                               .end = MeanLoss(std::span(steps).last(n_edge)),
                               .plateau = PlateauOf(steps)};
  CountOutliers(steps, &statistics);
  return statistics;
}

std::string OutliersInWords(const LossStatistics& loss) {
  if (loss.n_outliers == 0) return "none";
  return fmt::format(
      "{} of {} steps ({:.2f} %), from step {:.0f} to {:.0f}, {} of them after the first tenth",
      loss.n_outliers, loss.n_steps, 100.0 * loss.outlier_share(), loss.first_outlier,
      loss.last_outlier, loss.n_late_outliers);
}

}  // namespace dp_bench::inspect
