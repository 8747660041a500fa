// Success over time (compare/success_over_time.h) in tables, pages and plots.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "report/line_plot.h"
#include "run/episode_record.h"

namespace dp_bench::report {

/// compare::ToJson with "text", a sentence; null if there is nothing to tell. `horizon`: see
/// compare::DescribeSuccessOverTime.
nlohmann::json SuccessOverTimeJson(std::span<const run::EpisodeRecord> records,
                                   std::string_view split, int horizon, double control_hz = 0.0);

/// Adds the curve in what SuccessOverTimeJson returned.
void AddSuccessCurve(const nlohmann::json& over_time, const std::string& label, LinePlot* plot);

/// An empty plot for such curves.
LinePlot SuccessOverTimePlot();

}  // namespace dp_bench::report
