// See log_checks.h.
#include "inspect/log_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "core/json.h"
#include "core/regular_file.h"

namespace dp_bench::inspect {
namespace {

constexpr std::size_t kMinSteps = 100;
constexpr std::uint64_t kMaxLogBytes = std::uint64_t{1} << 30;
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

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

// null stands for NaN or Inf, which JSON cannot represent
void Append(const nlohmann::json& line, const char* key, std::vector<double>* values) {
  const auto found = line.find(key);
  if (found == line.end()) return;
  values->push_back(found->is_number() ? found->get<double>()
                                       : std::numeric_limits<double>::quiet_NaN());
}

bool IsTooShort(const LossCurve& curve) { return curve.train_loss.size() < kMinSteps; }

std::string TooShort(const LossCurve& curve) {
  return fmt::format("{} steps are too few for a verdict", curve.train_loss.size());
}

}  // namespace

LossCurve ReadLossCurve(const std::filesystem::path& log) {
  core::LineReader lines(log, kMaxLogBytes, kMaxLineBytes);
  LossCurve curve;
  for (std::string text; lines.Next(&text);) {
    const nlohmann::json line = core::TryParseJson(text);
    if (!line.is_object()) continue;
    Append(line, "train_loss", &curve.train_loss);
    Append(line, "val_loss", &curve.val_loss);
  }
  return curve;
}

Finding CheckLossIsFinite(const LossCurve& curve) {
  const Finding hypothesis = {.id = "E.loss_not_finite",
                              .claim = "the loss became NaN or Inf",
                              .advice =
                                  "a lower learning rate, gradient clipping "
                                  "(training.max_grad_norm), or mixed_precision=no",
                              .config_key = "optimizer.lr"};
  const auto bad =
      std::ranges::find_if(curve.train_loss, [](double x) { return !std::isfinite(x); });
  const bool is_fault = bad != curve.train_loss.end();
  return Decide(hypothesis, is_fault,
                is_fault ? fmt::format("first at step {}", bad - curve.train_loss.begin())
                         : fmt::format("{} steps are finite", curve.train_loss.size()));
}

Finding CheckLossFalls(const LossCurve& curve) {
  const Finding hypothesis = {
      .id = "E.loss_does_not_fall",
      .claim = "the training did not learn",
      .advice =
          "run dp_bench diagnose on the config: it tries learning rates and "
          "gradients on one batch",
      .config_key = "optimizer.lr",
      .certainty = Certainty::kLikely};
  if (IsTooShort(curve)) return LeaveOpen(hypothesis, TooShort(curve));
  const double first = Mean(std::span(curve.train_loss).first(10));
  const double last = Tenths(curve.train_loss).back();
  return Decide(hypothesis, !(last < 0.7 * first),
                fmt::format("mean of the first 10 steps {:.4g}, of the last tenth {:.4g} "
                            "({:.0f} % less)",
                            first, last, 100.0 * (1.0 - last / first)));
}

Finding CheckLossStays(const LossCurve& curve) {
  const Finding hypothesis = {.id = "E.loss_diverged",
                              .claim = "the loss rose again",
                              .advice =
                                  "a lower learning rate, a longer warm-up, or "
                                  "training.max_grad_norm",
                              .config_key = "optimizer.lr",
                              .certainty = Certainty::kLikely};
  if (IsTooShort(curve)) return LeaveOpen(hypothesis, TooShort(curve));
  const std::vector<double> tenths = Tenths(curve.train_loss);
  const double lowest = *std::ranges::min_element(tenths);
  return Decide(hypothesis, !(tenths.back() <= 1.5 * lowest),
                fmt::format("lowest tenth {:.4g}, last tenth {:.4g}", lowest, tenths.back()));
}

Finding CheckOverfitting(const LossCurve& curve) {
  const Finding hypothesis = {.id = "E.overfitting",
                              .claim = "the validation loss rises while the training loss falls",
                              .advice =
                                  "more demonstrations, augmentation, fewer epochs; judge by "
                                  "the success rate",
                              .config_key = "training.num_epochs",
                              .certainty = Certainty::kLikely,
                              .severity = Severity::kNote};
  if (curve.val_loss.size() < 5) return LeaveOpen(hypothesis, "fewer than 5 validation losses");
  const double lowest = *std::ranges::min_element(curve.val_loss);
  const double last = curve.val_loss.back();
  return Decide(hypothesis, last > 2.0 * lowest,
                fmt::format("lowest val_loss {:.4g}, last {:.4g}", lowest, last));
}

Findings CheckLog(const LossCurve& curve) {
  return {CheckLossIsFinite(curve), CheckLossFalls(curve), CheckLossStays(curve),
          CheckOverfitting(curve)};
}

}  // namespace dp_bench::inspect
