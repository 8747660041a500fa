#include "report/latency_report.h"

#include <fmt/format.h>

#include "core/json.h"

namespace dp_bench::report {
namespace {

using kainjow::mustache::data;

constexpr std::size_t kMaxLatencyBytes = std::size_t{1} << 20;

std::string LatencyRow(const std::string& name, const run::LatencySummary& latency) {
  return fmt::format("  {:<24} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} ms of {}\n", name,
                     1e3 * latency.p50_s, 1e3 * latency.p95_s, 1e3 * latency.p99_s,
                     1e3 * latency.max_s, latency.n);
}

std::string Rows(const run::PlanningLatency& planning, double deadline_s) {
  std::string rows = LatencyRow("whole chunk", run::SummarizeLatency(planning.chunk_s));
  for (const auto& [name, seconds] : planning.stage_s) {
    rows += LatencyRow("  " + name, run::SummarizeLatency(seconds));
  }
  return rows + fmt::format("  {:.1f} % of the chunks took longer than {:g} ms\n",
                            100.0 * run::ShareLate(planning.chunk_s, deadline_s), 1e3 * deadline_s);
}

data RowData(const std::string& name, const core::JsonView& summary) {
  data row;
  row.set("name", name);
  for (const char* key : {"p50_ms", "p95_ms", "p99_ms", "max_ms"}) {
    row.set(key, fmt::format("{:.2f}", summary.Get<double>(key)));
  }
  row.set("n", std::to_string(summary.Get<int>("n")));
  return row;
}

data TableData(const std::string& title, const core::JsonView& planning) {
  data rows(data::type::list);
  rows.push_back(RowData("whole chunk", planning.At("chunk")));
  for (const auto& [name, summary] : planning.At("stages").Members()) {
    rows.push_back(RowData(name, summary));
  }
  data table;
  table.set("title", title);
  table.set("rows", rows);
  table.set("late", fmt::format("{:.1f}", 100.0 * planning.Get<double>("share_late")));
  return table;
}

data PageData(const core::JsonView& json) {
  data tables(data::type::list);
  const core::JsonView alone = json.At("batch_1");
  tables.push_back(TableData("batch 1, as on a robot, measured on observations that are " +
                                 alone.Get<std::string>("observations"),
                             alone));
  if (json.Has("rollouts")) {
    const core::JsonView rollouts = json.At("rollouts");
    tables.push_back(TableData(
        fmt::format("in the rollouts, padded to batch {}", rollouts.Get<int>("batch_size")),
        rollouts));
  }
  data page;
  page.set("tables", tables);
  page.set("deadline", fmt::format("{:g}", json.Get<double>("deadline_ms")));
  page.set("control_hz", fmt::format("{:g}", json.Get<double>("control_hz")));
  return page;
}

}  // namespace

std::string LatencyTable(const run::PolicyLatency& latency) {
  const std::string header =
      fmt::format("  {:<24} {:>8} {:>8} {:>8} {:>8}\n", "", "p50", "p95", "p99", "max");
  std::string text =
      fmt::format("latency at batch 1, as on a robot, on {}\n",
                  latency.is_of_recorded_obs ? "observations of the rollouts" : "random numbers");
  text += header + Rows(latency.alone, latency.deadline_s());
  if (latency.in_rollouts.chunk_s.empty()) return text;
  return text +
         fmt::format("latency in the rollouts, padded to batch {}\n",
                     latency.in_rollouts.batch_size) +
         Rows(latency.in_rollouts, latency.deadline_s());
}

void SetLatency(const std::filesystem::path& file, data* page) {
  page->set("latency", false);
  if (!std::filesystem::exists(file)) return;
  const nlohmann::json json = core::ReadJsonFile(file, kMaxLatencyBytes);
  const std::string what = file.string();
  page->set("latency", PageData(core::JsonView(json, what)));
}

}  // namespace dp_bench::report
