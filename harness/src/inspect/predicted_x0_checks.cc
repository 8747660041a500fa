// See predicted_x0_checks.h.
#include "inspect/predicted_x0_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace dp_bench::inspect {
namespace {

constexpr double kNarrow = 0.6;  // std of the predicted x_0, as a multiple of that of x_0
constexpr double kWide = 2.0;
constexpr double kMaxOutreach = 5.0;  // its largest value, as a multiple of that of x_0
constexpr double kMaxShift = 0.25;    // difference of the means, in units of the std of x_0
constexpr double kMaxDrift = 1.4;     // factor by which the spread moves away from that of x_0
constexpr std::size_t kMinPoints = 20;

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
double SmallestSpreadOff(std::span<const LoggedRange> predicted, std::span<const LoggedRange> x_0) {
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < 10; ++i) {
    const std::size_t begin = i * predicted.size() / 10;
    const std::size_t size = (i + 1) * predicted.size() / 10 - begin;
    smallest =
        std::min(smallest, SpreadOff(predicted.subspan(begin, size), x_0.subspan(begin, size)));
  }
  return smallest;
}

}  // namespace

Finding CheckPredictedX0(const ValueRange& predicted, const ValueRange& x_0) {
  const Finding hypothesis = {.id = "D.predicted_x0",
                              .claim = "the predicted x_0 does not have the range of x_0",
                              .advice =
                                  "train longer; check the weights, and whether training and "
                                  "config have the same prediction_type",
                              .config_key = "policy.params.noise_scheduler.prediction_type",
                              .certainty = Certainty::kLikely};
  if (!x_0.is_finite()) return LeaveOpen(hypothesis, "the policy notes no predicted x_0");
  const std::string fault = FaultOf(predicted, x_0);
  return Decide(hypothesis, !fault.empty(),
                fmt::format("{}{}; x_0: {}", fault.empty() ? "" : fault + ": ", InWords(predicted),
                            InWords(x_0)));
}

Finding CheckPredictedX0Course(const LogCurves& curves) {
  const Finding hypothesis = {
      .id = "D.predicted_x0_course",
      .claim = "the predicted x_0 did not approach the range of x_0 during the training",
      .advice =
          "a lower learning rate or training.max_grad_norm if it drifted; else train "
          "longer, in float32",
      .config_key = "optimizer.lr",
      .certainty = Certainty::kLikely};
  const auto [predicted, x_0] = CourseOf(curves);
  if (predicted.size() < kMinPoints) {
    return LeaveOpen(hypothesis, fmt::format("the log has it at {} steps, at least {} are needed "
                                             "(logging.ranges_every)",
                                             predicted.size(), kMinPoints));
  }
  const ValueRange early = Merged(FirstTenth(predicted));
  const ValueRange late = Merged(LastTenth(predicted));
  const ValueRange real = Merged(LastTenth(x_0));
  const auto n_broken = std::ranges::count_if(
      predicted, [](const LoggedRange& point) { return !point.range.is_finite(); });
  std::string fault = n_broken > 0 ? "not finite" : FaultOf(late, real);
  if (fault.empty() && SpreadOff(LastTenth(predicted), LastTenth(x_0)) >
                           kMaxDrift * SmallestSpreadOff(predicted, x_0)) {
    fault = "drifts";
  }
  return Decide(hypothesis, !fault.empty(),
                fmt::format("{}early {}; late {}; x_0 {}; {} of {} steps with NaN or Inf",
                            fault.empty() ? "" : fault + ": ", InWords(early), InWords(late),
                            InWords(real), n_broken, predicted.size()));
}

}  // namespace dp_bench::inspect
