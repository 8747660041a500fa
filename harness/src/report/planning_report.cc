#include "report/planning_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "report/page_data.h"
#include "run/run_cost.h"

namespace dp_bench::report {
namespace {

using kainjow::mustache::data;

constexpr std::size_t kColours = 6;  // series-0 to series-5 of the style sheet
constexpr double kWidth = 120.0;     // of a panel
constexpr double kHeight = 96.0;
constexpr double kEdge = 4.0;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

// One range for all panels, so that they are comparable.
Range RangeOf(const run::Denoising& denoising) {
  Range range;
  for (const run::DenoisingStep& step : denoising.steps) {
    for (const std::vector<float>& row : step.sample) {
      range.low = std::min<double>(range.low, std::ranges::min(row));
      range.high = std::max<double>(range.high, std::ranges::max(row));
    }
  }
  return range;
}

class Panel {
 public:
  Panel(std::size_t horizon, const Range& range) : horizon_(horizon), range_(range) {}

  // The position of step t, with half a step of margin on both sides.
  double X(double t) const {
    return kEdge + (kWidth - 2.0 * kEdge) * (t + 0.5) / static_cast<double>(horizon_);
  }
  double Y(double value) const {
    const double span = std::max(range_.high - range_.low, 1e-6);
    return kEdge + (kHeight - 2.0 * kEdge) * (range_.high - value) / span;
  }

 private:
  std::size_t horizon_;
  Range range_;
};

std::string PanelSvg(const run::Denoising& denoising, const run::DenoisingStep& step,
                     const Range& range) {
  const Panel panel(step.sample.size(), range);
  std::string svg = fmt::format(
      R"(<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="sample">)", kWidth, kHeight);
  const double begin = panel.X(denoising.first_executed - 0.5);
  const double end = panel.X(denoising.first_executed + denoising.n_executed - 0.5);
  svg += fmt::format(R"(<rect class="chunk" x="{:.1f}" y="0" width="{:.1f}" height="{:.0f}"/>)",
                     begin, std::max(0.0, end - begin), kHeight);
  if (range.low < 0.0 && range.high > 0.0) {
    svg += fmt::format(R"(<path class="zero" d="M0 {:.1f}H{:.0f}"/>)", panel.Y(0.0), kWidth);
  }
  for (std::size_t dim = 0; dim < step.sample[0].size(); ++dim) {
    std::string points;
    for (std::size_t t = 0; t < step.sample.size(); ++t) {
      points += fmt::format("{:.1f},{:.1f} ", panel.X(static_cast<double>(t)),
                            panel.Y(step.sample[t][dim]));
    }
    svg += fmt::format(R"(<polyline class="series-{}" points="{}"/>)", dim % kColours, points);
  }
  return svg + "</svg>";
}

std::string LatencyRow(const std::string& name, const run::LatencySummary& latency) {
  return fmt::format("  {:<24} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} ms of {}\n", name,
                     1e3 * latency.p50_s, 1e3 * latency.p95_s, 1e3 * latency.p99_s,
                     1e3 * latency.max_s, latency.n);
}

std::string Rows(const run::PlanningSummary& planning, double deadline_s) {
  std::string rows = LatencyRow("whole chunk", planning.chunk);
  for (const auto& [name, stage] : planning.stages) rows += LatencyRow("  " + name, stage);
  return rows + fmt::format("  {:.1f} % of the chunks took longer than {:g} ms\n",
                            100.0 * planning.share_late, 1e3 * deadline_s);
}

std::string AtLoad(const run::PolicyLatencySummary& latency) {
  return latency.load ? ", at a " + run::Describe(*latency.load) : "";
}

data RowData(const std::string& name, const run::LatencySummary& latency) {
  data row;
  row.set("name", name);
  row.set("p50_ms", fmt::format("{:.2f}", 1e3 * latency.p50_s));
  row.set("p95_ms", fmt::format("{:.2f}", 1e3 * latency.p95_s));
  row.set("p99_ms", fmt::format("{:.2f}", 1e3 * latency.p99_s));
  row.set("max_ms", fmt::format("{:.2f}", 1e3 * latency.max_s));
  row.set("n", std::to_string(latency.n));
  return row;
}

data TableData(const std::string& title, const run::PlanningSummary& planning) {
  data rows = List();
  rows.push_back(RowData("whole chunk", planning.chunk));
  for (const auto& [name, stage] : planning.stages) rows.push_back(RowData(name, stage));
  data table;
  table.set("title", title);
  table.set("rows", rows);
  table.set("late", Percent(planning.share_late));
  return table;
}

}  // namespace

std::string LatencyTable(const run::PolicyLatencySummary& latency) {
  const std::string header =
      fmt::format("  {:<24} {:>8} {:>8} {:>8} {:>8}\n", "", "p50", "p95", "p99", "max");
  std::string text =
      fmt::format("latency at batch 1, as on a robot, on {}{}\n",
                  latency.is_of_recorded_obs ? "observations of the rollouts" : "random numbers",
                  AtLoad(latency));
  text += header + Rows(latency.alone, latency.deadline_s);
  if (!latency.in_rollouts) return text;
  return text +
         fmt::format("latency in the rollouts, padded to batch {}\n",
                     latency.in_rollouts->batch_size) +
         Rows(*latency.in_rollouts, latency.deadline_s);
}

data LatencyData(const run::PolicyLatencySummary& latency) {
  data tables = List();
  tables.push_back(
      TableData(fmt::format("batch 1, as on a robot, measured on observations that are {}{}",
                            latency.is_of_recorded_obs ? "of the rollouts" : "random numbers",
                            AtLoad(latency)),
                latency.alone));
  if (latency.in_rollouts) {
    tables.push_back(TableData(
        fmt::format("in the rollouts, padded to batch {}", latency.in_rollouts->batch_size),
        *latency.in_rollouts));
  }
  data page;
  page.set("tables", tables);
  page.set("deadline", fmt::format("{:g}", 1e3 * latency.deadline_s));
  page.set("control_hz", fmt::format("{:g}", latency.control_hz));
  return page;
}

data DenoisingData(const run::Denoising& denoising) {
  const Range range = RangeOf(denoising);
  data panels = List();
  for (const run::DenoisingStep& step : denoising.steps) {
    const bool is_plan = &step == &denoising.steps.back();
    data panel;
    panel.set("svg", PanelSvg(denoising, step, range));
    panel.set("is_plan", is_plan);
    const bool is_named = !is_plan && step.timestep.has_value();
    panel.set("label", is_plan    ? "plan"
                       : is_named ? fmt::format("t = {:.6g}", *step.timestep)
                                  : "");
    panels.push_back(panel);
  }
  const std::size_t n_dims = denoising.steps[0].sample[0].size();
  const bool has_all = n_dims == static_cast<std::size_t>(denoising.action_dim);
  data page;
  page.set("panels", panels);
  page.set("seed", std::to_string(denoising.seed));
  page.set("env_step", std::to_string(denoising.env_step));
  page.set("n_steps", std::to_string(denoising.n_steps));
  page.set("horizon", std::to_string(denoising.steps[0].sample.size()));
  page.set("dims", has_all ? fmt::format("all {} dimensions of the action", n_dims)
                           : fmt::format("the first {} of {} dimensions of the action", n_dims,
                                         denoising.action_dim));
  page.set("low", fmt::format("{:.2f}", range.low));
  page.set("high", fmt::format("{:.2f}", range.high));
  return page;
}

}  // namespace dp_bench::report
