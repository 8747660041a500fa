// For what it looks like see delays.*.mustache.
#include "report/delay_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/output_file.h"
#include "report/line_plot.h"
#include "report/render.h"

namespace dp_bench::report {
namespace {

using Json = nlohmann::json;

bool IsInMs(const Json& row) { return row.at("delay").is_null(); }

double DelayOf(const Json& row) {
  return IsInMs(row) ? row.at("delay_ms").get<double>() : row.at("delay").get<double>();
}

// What the table and the page show: also texts for cells that a template cannot make.
Json ShownRows(Json rows) {
  bool has_letters = false;
  for (Json& row : rows) {
    row["delay_text"] =
        IsInMs(row) ? fmt::format("{:g} ms", DelayOf(row)) : fmt::format("{:g}", DelayOf(row));
    const int execute = row.at("execute");
    row["execute_text"] = execute > 0 ? fmt::format("{}", execute) : "all";
    row["link"] = LinkBelow(row.at("folder").get<std::string>() + "/report.html");
    has_letters = has_letters || row.at("letters") != "";
  }
  // rows of several policies name theirs
  const bool has_policies = !rows.empty() && rows.front().contains("policy");
  return {{"rows", std::move(rows)}, {"has_letters", has_letters}, {"has_policies", has_policies}};
}

std::string CurveOf(const Json& row) {
  const std::string method = row.at("method");
  return row.contains("policy") ? row.at("policy").get<std::string>() + ", " + method : method;
}

// A curve of each method, over the rows with one number of executed steps.
struct DelayPlot {
  const char* title;
  double (*value)(const Json& row);
  bool is_rate = false;
};

// NaN, which is not drawn, where no episode succeeded, or successes do not say their step.
double MeanTimeOf(const Json& row) {
  const Json& over_time = row.at("over_time");
  return over_time.is_null() ? std::numeric_limits<double>::quiet_NaN()
                             : over_time.at("restricted_mean").at("mean").get<double>();
}

// NaN where successes do not say their step, or nothing says how long a step takes.
double PerHourOf(const Json& row) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const Json& over_time = row.at("over_time");
  if (over_time.is_null()) return row.at("n_success") == 0 ? 0.0 : kUnknown;
  const Json& per_hour = over_time.at("per_hour");
  return per_hour.is_null() ? kUnknown : per_hour.at("rate").get<double>();
}

const std::vector<DelayPlot>& DelayPlots() {
  static const std::vector<DelayPlot> plots = {
      {"Success rate", [](const Json& row) { return row.at("success_rate").get<double>(); },
       /*is_rate=*/true},
      {"Mean time to success [steps]", &MeanTimeOf},
      {"Successes per hour", &PerHourOf},
      {"Share of stale steps", [](const Json& row) { return row.at("stale_share").get<double>(); }},
      {"Jerk at seams", [](const Json& row) { return row.at("jerk_at_seams").get<double>(); }},
  };
  return plots;
}

LinePlot PlotOf(const DelayPlot& choice, const std::vector<const Json*>& rows) {
  LinePlot plot = {.title = choice.title,
                   .unit_range = choice.is_rate,
                   .from_zero = true,
                   .x_label = IsInMs(*rows.front()) ? "delay [ms]" : "delay [steps]"};
  for (const Json* row : rows) {
    const std::string curve = CurveOf(*row);
    auto series = std::ranges::find(plot.series, curve, &PlotSeries::label);
    if (series == plot.series.end()) {
      series = plot.series.insert(plot.series.end(), {.label = curve, .points = {}});
    }
    series->points.push_back({.epoch = DelayOf(*row), .value = choice.value(*row)});
    if (choice.is_rate) series->intervals.push_back({row->at("low"), row->at("high")});
  }
  return plot;
}

Json PlotGroups(const Json& rows) {
  std::map<std::pair<bool, int>, std::vector<const Json*>> by_execute;
  for (const Json& row : rows) by_execute[{IsInMs(row), row.at("execute")}].push_back(&row);
  Json groups = Json::array();
  for (auto& [place, members] : by_execute) {
    std::ranges::stable_sort(
        members, [](const Json* a, const Json* b) { return DelayOf(*a) < DelayOf(*b); });
    Json plots = Json::array();
    for (const DelayPlot& choice : DelayPlots()) AppendPlot(PlotOf(choice, members), &plots);
    groups.push_back(
        {{"title", place.second > 0 ? fmt::format("A plan every {} steps", place.second)
                                    : std::string("Chunks executed to their end")},
         {"plots", plots}});
  }
  return groups;
}

}  // namespace

std::string DelayTable(Json rows) { return Render("delays.txt", ShownRows(std::move(rows))); }

void WriteDelayPage(Json rows, bool is_quasi_static, const std::string& generator,
                    const std::filesystem::path& file) {
  Json page = ShownRows(std::move(rows));
  page["title"] = "Success against delay";
  page["generator"] = generator;
  page["n_points"] = page["rows"].size();
  page["is_quasi_static"] = is_quasi_static;
  page["groups"] = PlotGroups(page["rows"]);
  core::WriteOutput(file, Render("delays.html", page));
}

}  // namespace dp_bench::report
