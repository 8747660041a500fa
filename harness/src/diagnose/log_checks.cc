// See log_checks.h.
#include "diagnose/log_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace dp_bench::diagnose {
namespace {

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
                is_fault ? fmt::format("first at step {}", bad - curves.train_loss.begin())
                         : fmt::format("{} steps are finite", curves.train_loss.size()));
}

// Compares the loss of the last tenth with that of the first steps.
Finding CheckLossFalls(const LogCurves& curves) {
  const double first = MeanLoss(std::span(curves.train_loss).first(10));
  const double last = MeanLoss(EqualPart(curves.train_loss, 9, 10));
  return Decide("E.loss_does_not_fall", !(last < 0.7 * first),
                fmt::format("mean of the first 10 steps {:.4g}, of the last tenth {:.4g} "
                            "({:.0f} % less)",
                            first, last, 100.0 * (1.0 - last / first)));
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
                fmt::format("lowest tenth {:.4g}, last tenth {:.4g}", lowest, last));
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
  return Decide(
      "E.loss_plateau", true,
      fmt::format("{}; {:.4g} since step {:.0f}, the last {:.0f} % of the steps", course,
                  loss->plateau->loss, loss->plateau->first_step, 100.0 * loss->plateau->share));
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
  return Decide("E.overfitting", last > 2.0 * lowest,
                fmt::format("lowest val_loss {:.4g}, last {:.4g}", lowest, last));
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
    return LeaveOpen("D.predicted_x0_course",
                     fmt::format("the log has it at {} steps, at least {} are needed "
                                 "(logging.ranges_every)",
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
                fmt::format("{}early {}; late {}; x_0 {}; {} of {} steps with NaN or Inf",
                            fault.empty() ? "" : fault + ": ", InWords(early), InWords(late),
                            InWords(real), n_broken, predicted.size()));
}

}  // namespace

Finding CheckPredictedX0(const ValueRange& predicted, const ValueRange& x_0) {
  if (!x_0.is_finite()) return LeaveOpen("D.predicted_x0", "the policy notes no predicted x_0");
  const std::string fault = FaultOf(predicted, x_0);
  return Decide("D.predicted_x0", !fault.empty(),
                fmt::format("{}{}; x_0: {}", fault.empty() ? "" : fault + ": ", InWords(predicted),
                            InWords(x_0)));
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
