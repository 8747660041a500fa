// See log_curves.h.
#include "diagnose/log_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/json.h"
#include "core/regular_file.h"

namespace dp_bench::diagnose {
namespace {

constexpr std::uint64_t kMaxLogBytes = std::uint64_t{1} << 30;
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;
constexpr double kOutlierFactor = 3.0;
constexpr std::size_t kPlateauParts = 20;
constexpr std::size_t kFewestPlateauParts = 6;
constexpr std::size_t kStepsPerPart = 5;
constexpr double kPlateauTolerance = 0.05;
constexpr double kMaxPlateauTolerance = 0.15;

// null stands for NaN or Inf, which JSON cannot represent
double NumberOr(const nlohmann::json& line, const std::string& key, double absent) {
  const auto found = line.find(key);
  if (found == line.end()) return absent;
  return found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

void AppendRanges(const nlohmann::json& line, double step, LogCurves* curves) {
  for (const char* tensor : {"x0", "noise", "xt", "t", "predicted_x0"}) {
    const std::string prefix = fmt::format("train_{}_", tensor);
    if (!line.contains(prefix + "std")) continue;
    const auto read = [&](const char* what) {
      return NumberOr(line, prefix + what, std::numeric_limits<double>::quiet_NaN());
    };
    curves->ranges[tensor].push_back(
        {.step = step,
         .range = {
             .min = read("min"), .max = read("max"), .mean = read("mean"), .std = read("std")}});
  }
}

double MedianLoss(std::span<const LoggedLoss> steps) {
  std::vector<double> losses;
  for (const LoggedLoss& step : steps) losses.push_back(step.loss);
  const auto middle = losses.begin() + std::ssize(losses) / 2;
  std::ranges::nth_element(losses, middle);
  return *middle;
}

// The standard error of a part's mean.
double ErrorOfMean(std::span<const LoggedLoss> part) {
  const double mean = MeanLoss(part);
  double squares = 0.0;
  for (const LoggedLoss& step : part) squares += (step.loss - mean) * (step.loss - mean);
  return std::sqrt(squares) / static_cast<double>(part.size());
}

// Goes back from the end while each part's mean equals that of the last fifth, within 5 % or, where
// the loss is noisier than that, three standard errors.
std::optional<LossPlateau> PlateauOf(const std::vector<LoggedLoss>& steps) {
  if (steps.size() < kPlateauParts * kStepsPerPart) return std::nullopt;
  const double level = MeanLoss(EqualPart(steps, 4, 5));
  std::size_t first = kPlateauParts;
  while (first > 0) {
    const auto part = EqualPart(steps, first - 1, kPlateauParts);
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

void CountOutliers(const std::vector<LoggedLoss>& steps, LossStatistics* statistics) {
  for (std::size_t i = 0; i < 10; ++i) {
    const auto tenth = EqualPart(steps, i, 10);
    if (tenth.empty()) continue;
    const double limit = kOutlierFactor * MedianLoss(tenth);
    for (const LoggedLoss& step : tenth) {
      if (!(step.loss > limit)) continue;
      if (statistics->n_outliers++ == 0) statistics->first_outlier = step.step;
      if (i > 0) ++statistics->n_late_outliers;
      statistics->last_outlier = step.step;
    }
  }
}

}  // namespace

std::span<const LoggedRange> LogCurves::RangesOf(const std::string& tensor) const {
  const auto found = ranges.find(tensor);
  return found == ranges.end() ? std::span<const LoggedRange>() : found->second;
}

LogCurves ReadLogCurves(const std::filesystem::path& log) {
  core::LineReader lines(log, kMaxLogBytes, kMaxLineBytes);
  LogCurves curves;
  for (std::string text; lines.Next(&text);) {
    const nlohmann::json line = core::TryParseJson(text);
    if (!line.is_object()) continue;
    const double step = NumberOr(line, "global_step", static_cast<double>(curves.n_lines));
    ++curves.n_lines;
    if (line.contains("train_loss")) {
      curves.train_loss.push_back({step, NumberOr(line, "train_loss", 0.0)});
    }
    if (line.contains("val_loss")) {
      curves.val_loss.push_back({step, NumberOr(line, "val_loss", 0.0)});
    }
    AppendRanges(line, step, &curves);
  }
  return curves;
}

ValueRange Merged(std::span<const LoggedRange> points) {
  ValueRange merged;
  double n = 0.0;
  for (const LoggedRange& point : points) {
    if (!point.range.is_finite()) continue;
    merged.min = n > 0.0 ? std::min(merged.min, point.range.min) : point.range.min;
    merged.max = n > 0.0 ? std::max(merged.max, point.range.max) : point.range.max;
    merged.mean = n > 0.0 ? merged.mean + point.range.mean : point.range.mean;
    merged.std = n > 0.0 ? merged.std + point.range.std : point.range.std;
    ++n;
  }
  merged.mean /= n;
  merged.std /= n;
  return merged;
}

std::span<const LoggedRange> FirstTenth(std::span<const LoggedRange> points) {
  return points.first((points.size() + 9) / 10);
}

std::span<const LoggedRange> LastTenth(std::span<const LoggedRange> points) {
  return points.last((points.size() + 9) / 10);
}

double MeanLoss(std::span<const LoggedLoss> points) {
  double sum = 0.0;
  for (const LoggedLoss& point : points) sum += point.loss;
  return sum / static_cast<double>(points.size());
}

std::optional<LossStatistics> StatisticsOf(const LogCurves& curves) {
  std::vector<LoggedLoss> steps = curves.train_loss;
  std::erase_if(steps, [](const LoggedLoss& step) { return !std::isfinite(step.loss); });
  if (steps.empty()) return std::nullopt;
  const auto [lowest, highest] = std::ranges::minmax(steps, {}, &LoggedLoss::loss);
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

}  // namespace dp_bench::diagnose
