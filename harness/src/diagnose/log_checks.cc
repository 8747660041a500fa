#include "diagnose/log_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

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

// The i-th of n parts of nearly the same length.
template <class Points>
auto EqualPart(const Points& points, std::size_t i, std::size_t n) {
  const std::size_t begin = i * points.size() / n;
  return std::span(points).subspan(begin, (i + 1) * points.size() / n - begin);
}

// The points must not be empty.
double MeanLoss(std::span<const LoggedLoss> points) {
  double sum = 0.0;
  for (const LoggedLoss& point : points) sum += point.loss;
  return sum / static_cast<double>(points.size());
}

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

constexpr std::size_t kMinSteps = 100;
constexpr double kMaxSpikeShare = 0.01;
constexpr std::size_t kMinSpikes = 3;

constexpr double kNarrow = 0.6;  // std of the predicted x_0, as a multiple of that of x_0
constexpr double kWide = 2.0;
constexpr double kMaxOutreach = 5.0;  // its largest value, as a multiple of that of x_0
constexpr double kMaxShift = 0.25;    // difference of the means, in units of the std of x_0
constexpr double kMaxDrift = 1.4;     // factor by which the spread moves away from that of x_0
constexpr std::size_t kMinPoints = 20;

Finding CheckLossIsFinite(const LogCurves& curves) {
  const auto bad = std::ranges::find_if(
      curves.train_loss, [](const LoggedLoss& point) { return !std::isfinite(point.loss); });
  const bool is_fault = bad != curves.train_loss.end();
  return Decide("E.loss_not_finite", is_fault,
                is_fault ? fmt::format("first at step {:.0f}", bad->step)
                         : fmt::format("{} steps are finite", curves.train_loss.size()));
}

// Compares the loss of the last tenth with that of the first steps.
Finding CheckLossFalls(const LogCurves& curves) {
  const double first = MeanLoss(std::span(curves.train_loss).first(10));
  const double last = MeanLoss(EqualPart(curves.train_loss, 9, 10));
  return Decide("E.loss_does_not_fall", !(last < 0.7 * first),
                "mean of the first 10 steps {:.4g}, of the last tenth {:.4g} ({:.0f} % less)",
                first, last, 100.0 * (1.0 - last / first));
}

// Compares the loss of the last tenth with the lowest tenth.
Finding CheckLossStays(const LogCurves& curves) {
  double lowest = std::numeric_limits<double>::infinity();
  double last = 0.0;
  for (std::size_t i = 0; i < 10; ++i) {
    last = MeanLoss(EqualPart(curves.train_loss, i, 10));
    lowest = std::min(lowest, last);
  }
  return Decide("E.loss_diverged", !(last <= 1.5 * lowest),
                "lowest tenth {:.4g}, last tenth {:.4g}", lowest, last);
}

// The loss no longer changes over the last third of the log or more. Only a note, because that is
// how a good training ends.
Finding CheckPlateau(const LogCurves& curves) {
  const auto loss = StatisticsOf(curves);
  if (!loss) return LeaveOpen("E.loss_plateau", "no loss is finite");
  const std::string course = fmt::format("start {:.4g}, end {:.4g} ({:.2f} % less)", loss->start,
                                         loss->end, 100.0 * loss->fall());
  if (!loss->plateau) {
    return Decide("E.loss_plateau", false, course + "; it still changes at the end");
  }
  return Decide("E.loss_plateau", true,
                "{}; {:.4g} since step {:.0f}, the last {:.0f} % of the steps", course,
                loss->plateau->loss, loss->plateau->first_step, 100.0 * loss->plateau->share);
}

// Steps whose loss is far above its surroundings, after the first tenth of the log. A note.
Finding CheckSpikes(const LogCurves& curves) {
  const auto loss = StatisticsOf(curves);
  if (!loss) return LeaveOpen("E.loss_spikes", "no loss is finite");
  return Decide(
      "E.loss_spikes",
      loss->n_late_outliers >= kMinSpikes && loss->late_outlier_share() > kMaxSpikeShare,
      "steps above three times the median of their tenth of the log: " + OutliersInWords(*loss));
}

// A validation loss that rises while the training loss falls. Only a note, because the success rate
// of diffusion policies often rises anyway.
Finding CheckOverfitting(const LogCurves& curves) {
  if (curves.val_loss.size() < 5) {
    return LeaveOpen("E.overfitting", "fewer than 5 validation losses");
  }
  const double lowest = std::ranges::min_element(curves.val_loss, {}, &LoggedLoss::loss)->loss;
  const double last = curves.val_loss.back().loss;
  return Decide("E.overfitting", last > 2.0 * lowest, "lowest val_loss {:.4g}, last {:.4g}", lowest,
                last);
}

double LargestOf(const ValueRange& range) {
  return std::max(std::abs(range.min), std::abs(range.max));
}

// How it differs from x_0; empty if it does not.
std::string FaultOf(const ValueRange& predicted, const ValueRange& x_0) {
  if (!predicted.is_finite()) return "not finite";
  const double ratio = predicted.std / x_0.std;
  if (ratio < kNarrow) return "too narrow";
  if (ratio > kWide || LargestOf(predicted) > kMaxOutreach * LargestOf(x_0)) return "too wide";
  if (std::abs(predicted.mean - x_0.mean) > kMaxShift * x_0.std) return "shifted";
  return "";
}

std::string InWords(const ValueRange& range) {
  return fmt::format("[{:.3g}, {:.3g}], mean {:.3g}, std {:.3g}", range.min, range.max, range.mean,
                     range.std);
}

// The steps that have both, at the same places of both lists: a small batch may have no row at a
// low timestep, and then no predicted x_0.
struct X0Course {
  std::vector<LoggedRange> predicted;
  std::vector<LoggedRange> x_0;
};

X0Course CourseOf(const LogCurves& curves) {
  X0Course course;
  const auto x_0 = curves.RangesOf("x0");
  auto at = x_0.begin();
  for (const LoggedRange& point : curves.RangesOf("predicted_x0")) {
    while (at != x_0.end() && at->step < point.step) ++at;
    if (at == x_0.end() || at->step != point.step) continue;
    course.predicted.push_back(point);
    course.x_0.push_back(*at);
  }
  return course;
}

// How far the spread is from that of x_0, as a factor of at least 1.
double SpreadOff(std::span<const LoggedRange> predicted, std::span<const LoggedRange> x_0) {
  return std::exp(std::abs(std::log(Merged(predicted).std / Merged(x_0).std)));
}

// The factor of the best tenth; both curves have the same steps.
double SmallestSpreadOff(const X0Course& course) {
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < 10; ++i) {
    smallest = std::min(
        smallest, SpreadOff(EqualPart(course.predicted, i, 10), EqualPart(course.x_0, i, 10)));
  }
  return smallest;
}

// Compares the first tenth of the logged steps with the last.
Finding CheckPredictedX0Course(const LogCurves& curves) {
  const X0Course course = CourseOf(curves);
  const auto& [predicted, x_0] = course;
  if (predicted.size() < kMinPoints) {
    return LeaveOpen(
        "D.predicted_x0_course",
        fmt::format("the log has it at {} steps, at least {} are needed (logging.ranges_every)",
                    predicted.size(), kMinPoints));
  }
  const ValueRange early = Merged(FirstTenth(predicted));
  const ValueRange late = Merged(LastTenth(predicted));
  const ValueRange real = Merged(LastTenth(x_0));
  const auto n_broken = std::ranges::count_if(
      predicted, [](const LoggedRange& point) { return !point.range.is_finite(); });
  std::string fault = n_broken > 0 ? "not finite" : FaultOf(late, real);
  if (fault.empty() &&
      SpreadOff(LastTenth(predicted), LastTenth(x_0)) > kMaxDrift * SmallestSpreadOff(course)) {
    fault = "drifts";
  }
  return Decide("D.predicted_x0_course", !fault.empty(),
                "{}early {}; late {}; x_0 {}; {} of {} steps with NaN or Inf",
                fault.empty() ? "" : fault + ": ", InWords(early), InWords(late), InWords(real),
                n_broken, predicted.size());
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

Finding CheckPredictedX0(const ValueRange& predicted, const ValueRange& x_0) {
  if (!x_0.is_finite()) return LeaveOpen("D.predicted_x0", "the policy notes no predicted x_0");
  const std::string fault = FaultOf(predicted, x_0);
  return Decide("D.predicted_x0", !fault.empty(), "{}{}; x_0: {}",
                fault.empty() ? "" : fault + ": ", InWords(predicted), InWords(x_0));
}

Findings CheckLog(const LogCurves& curves) {
  Findings findings = {CheckLossIsFinite(curves)};
  const std::size_t n = curves.train_loss.size();
  using Check = std::pair<const char*, Finding (*)(const LogCurves&)>;
  for (const auto& [id, check] :
       {Check("E.loss_does_not_fall", CheckLossFalls), Check("E.loss_diverged", CheckLossStays),
        Check("E.loss_plateau", CheckPlateau), Check("E.loss_spikes", CheckSpikes)}) {
    findings.push_back(n < kMinSteps
                           ? LeaveOpen(id, fmt::format("{} steps are too few for a verdict", n))
                           : check(curves));
  }
  findings.push_back(CheckOverfitting(curves));
  findings.push_back(CheckPredictedX0Course(curves));
  return findings;
}

}  // namespace dp_bench::diagnose
