// See log_checks.h.
#include "inspect/log_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "inspect/loss_statistics.h"

namespace dp_bench::inspect {
namespace {

constexpr std::size_t kMinSteps = 100;
constexpr double kMaxSpikeShare = 0.01;
constexpr std::size_t kMinSpikes = 3;

double Mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Means of ten equal parts.
std::vector<double> Tenths(const std::vector<double>& values) {
  std::vector<double> means;
  for (std::size_t i = 0; i < 10; ++i) {
    const std::size_t begin = i * values.size() / 10;
    const std::size_t end = (i + 1) * values.size() / 10;
    means.push_back(Mean(std::span(values).subspan(begin, end - begin)));
  }
  return means;
}

bool IsTooShort(const LogCurves& curves) { return curves.train_loss.size() < kMinSteps; }

std::string TooShort(const LogCurves& curves) {
  return fmt::format("{} steps are too few for a verdict", curves.train_loss.size());
}

}  // namespace

Finding CheckLossIsFinite(const LogCurves& curves) {
  const Finding hypothesis = {.id = "E.loss_not_finite",
                              .claim = "the loss became NaN or Inf",
                              .advice =
                                  "a lower learning rate, gradient clipping "
                                  "(training.max_grad_norm), or mixed_precision=no",
                              .config_key = "optimizer.lr"};
  const auto bad =
      std::ranges::find_if(curves.train_loss, [](double x) { return !std::isfinite(x); });
  const bool is_fault = bad != curves.train_loss.end();
  return Decide(hypothesis, is_fault,
                is_fault ? fmt::format("first at step {}", bad - curves.train_loss.begin())
                         : fmt::format("{} steps are finite", curves.train_loss.size()));
}

Finding CheckLossFalls(const LogCurves& curves) {
  const Finding hypothesis = {
      .id = "E.loss_does_not_fall",
      .claim = "the training did not learn",
      .advice =
          "run dp_bench diagnose on the config: it tries learning rates and "
          "gradients on one batch",
      .config_key = "optimizer.lr",
      .certainty = Certainty::kLikely};
  if (IsTooShort(curves)) return LeaveOpen(hypothesis, TooShort(curves));
  const double first = Mean(std::span(curves.train_loss).first(10));
  const double last = Tenths(curves.train_loss).back();
  return Decide(hypothesis, !(last < 0.7 * first),
                fmt::format("mean of the first 10 steps {:.4g}, of the last tenth {:.4g} "
                            "({:.0f} % less)",
                            first, last, 100.0 * (1.0 - last / first)));
}

Finding CheckLossStays(const LogCurves& curves) {
  const Finding hypothesis = {.id = "E.loss_diverged",
                              .claim = "the loss rose again",
                              .advice =
                                  "a lower learning rate, a longer warm-up, or "
                                  "training.max_grad_norm",
                              .config_key = "optimizer.lr",
                              .certainty = Certainty::kLikely};
  if (IsTooShort(curves)) return LeaveOpen(hypothesis, TooShort(curves));
  const std::vector<double> tenths = Tenths(curves.train_loss);
  const double lowest = *std::ranges::min_element(tenths);
  return Decide(hypothesis, !(tenths.back() <= 1.5 * lowest),
                fmt::format("lowest tenth {:.4g}, last tenth {:.4g}", lowest, tenths.back()));
}

Finding CheckPlateau(const LogCurves& curves) {
  const Finding hypothesis = {.id = "E.loss_plateau",
                              .claim = "the loss no longer falls",
                              .advice =
                                  "more epochs of the same will change little: judge by the "
                                  "success rate, then try a lower learning rate at the end, more "
                                  "demonstrations, or a larger network",
                              .config_key = "training.num_epochs",
                              .certainty = Certainty::kLikely,
                              .severity = Severity::kNote};
  if (IsTooShort(curves)) return LeaveOpen(hypothesis, TooShort(curves));
  const auto loss = StatisticsOf(curves);
  if (!loss) return LeaveOpen(hypothesis, "no loss is finite");
  const std::string course = fmt::format("start {:.4g}, end {:.4g} ({:.2f} % less)", loss->start,
                                         loss->end, 100.0 * loss->fall());
  if (!loss->plateau) return Decide(hypothesis, false, course + "; it still changes at the end");
  return Decide(
      hypothesis, true,
      fmt::format("{}; {:.4g} since step {:.0f}, the last {:.0f} % of the steps", course,
                  loss->plateau->loss, loss->plateau->first_step, 100.0 * loss->plateau->share));
}

Finding CheckSpikes(const LogCurves& curves) {
  const Finding hypothesis = {.id = "E.loss_spikes",
                              .claim = "the loss jumps after the start of the training",
                              .advice =
                                  "training.max_grad_norm, a lower learning rate, or a look at "
                                  "the samples of those steps",
                              .config_key = "training.max_grad_norm",
                              .certainty = Certainty::kLikely,
                              .severity = Severity::kNote};
  if (IsTooShort(curves)) return LeaveOpen(hypothesis, TooShort(curves));
  const auto loss = StatisticsOf(curves);
  if (!loss) return LeaveOpen(hypothesis, "no loss is finite");
  return Decide(
      hypothesis,
      loss->n_late_outliers >= kMinSpikes && loss->late_outlier_share() > kMaxSpikeShare,
      "steps above three times the median of their tenth of the log: " + OutliersInWords(*loss));
}

Finding CheckOverfitting(const LogCurves& curves) {
  const Finding hypothesis = {.id = "E.overfitting",
                              .claim = "the validation loss rises while the training loss falls",
                              .advice =
                                  "more demonstrations, augmentation, fewer epochs; judge by "
                                  "the success rate",
                              .config_key = "training.num_epochs",
                              .certainty = Certainty::kLikely,
                              .severity = Severity::kNote};
  if (curves.val_loss.size() < 5) return LeaveOpen(hypothesis, "fewer than 5 validation losses");
  const double lowest = *std::ranges::min_element(curves.val_loss);
  const double last = curves.val_loss.back();
  return Decide(hypothesis, last > 2.0 * lowest,
                fmt::format("lowest val_loss {:.4g}, last {:.4g}", lowest, last));
}

Findings CheckLog(const LogCurves& curves) {
  return {CheckLossIsFinite(curves), CheckLossFalls(curves), CheckLossStays(curves),
          CheckPlateau(curves),      CheckSpikes(curves),    CheckOverfitting(curves)};
}

}  // namespace dp_bench::inspect
