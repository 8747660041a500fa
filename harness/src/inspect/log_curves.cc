// See log_curves.h.
#include "inspect/log_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/json.h"
#include "core/regular_file.h"

namespace dp_bench::inspect {
namespace {

constexpr std::uint64_t kMaxLogBytes = std::uint64_t{1} << 30;
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

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
      curves.steps.push_back(step);
      curves.train_loss.push_back(NumberOr(line, "train_loss", 0.0));
    }
    if (line.contains("val_loss")) {
      curves.val_steps.push_back(step);
      curves.val_loss.push_back(NumberOr(line, "val_loss", 0.0));
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

}  // namespace dp_bench::inspect
