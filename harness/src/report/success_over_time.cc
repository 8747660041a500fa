// See success_over_time.txt.mustache.
#include "report/success_over_time.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "compare/success_over_time.h"
#include "report/render.h"

namespace dp_bench::report {

using Json = nlohmann::json;

Json SuccessOverTimeJson(std::span<const run::EpisodeRecord> records, std::string_view split,
                         int horizon, double control_hz) {
  const std::optional<compare::SuccessOverTime> described =
      compare::DescribeSuccessOverTime(records, split, horizon);
  if (!described) return nullptr;
  Json json = compare::ToJson(*described, control_hz);
  std::string text = Render("success_over_time.txt", json);
  text.erase(text.find_last_not_of('\n') + 1);  // it is part of a line
  json["text"] = std::move(text);
  return json;
}

void AddSuccessCurve(const Json& over_time, const std::string& label, LinePlot* plot) {
  if (over_time.is_null()) return;
  PlotSeries series = {.label = label, .points = {{.epoch = 0.0, .value = 0.0}}};
  // a staircase: the share stays until the next success
  for (const Json& point : over_time.at("curve")) {
    const auto step = point.at("step").get<double>();
    series.points.push_back({.epoch = step, .value = series.points.back().value});
    series.points.push_back({.epoch = step, .value = point.at("share").get<double>()});
  }
  series.points.push_back(
      {.epoch = over_time.at("horizon").get<double>(), .value = series.points.back().value});
  plot->series.push_back(std::move(series));
}

LinePlot SuccessOverTimePlot() {
  return {.title = "Share of episodes that have succeeded", .unit_range = true, .x_label = "step"};
}

}  // namespace dp_bench::report
