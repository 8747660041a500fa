#include "report/latency_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

using Json = nlohmann::json;
using kainjow::mustache::data;

constexpr std::size_t kMaxLatencyBytes = std::size_t{1} << 20;

std::string Row(const std::string& name, const LatencySummary& latency) {
  return fmt::format("  {:<24} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} ms of {}\n", name,
                     1e3 * latency.p50_s, 1e3 * latency.p95_s, 1e3 * latency.p99_s,
                     1e3 * latency.max_s, latency.n);
}

std::string Rows(const PlanningLatency& planning, double deadline_s) {
  std::string rows = Row("whole chunk", SummarizeLatency(planning.chunk_s));
  for (const auto& [name, seconds] : planning.stage_s) {
    rows += Row("  " + name, SummarizeLatency(seconds));
  }
  return rows + fmt::format("  {:.1f} % of the chunks took longer than {:g} ms\n",
                            100.0 * ShareLate(planning.chunk_s, deadline_s), 1e3 * deadline_s);
}

std::string Milliseconds(const Json& summary, const char* key) {
  return fmt::format("{:.2f}", summary.at(key).get<double>());
}

data RowData(const std::string& name, const Json& summary) {
  data row;
  row.set("name", name);
  for (const char* key : {"p50_ms", "p95_ms", "p99_ms", "max_ms"}) {
    row.set(key, Milliseconds(summary, key));
  }
  row.set("n", std::to_string(summary.at("n").get<int>()));
  return row;
}

data TableData(const std::string& title, const Json& planning) {
  data rows(data::type::list);
  rows.push_back(RowData("whole chunk", planning.at("chunk")));
  for (const auto& [name, summary] : planning.at("stages").items()) {
    rows.push_back(RowData(name, summary));
  }
  data table;
  table.set("title", title);
  table.set("rows", rows);
  table.set("late", fmt::format("{:.1f}", 100.0 * planning.at("share_late").get<double>()));
  return table;
}

data PageData(const Json& json) {
  data tables(data::type::list);
  const Json& alone = json.at("batch_1");
  tables.push_back(TableData("batch 1, as on a robot, measured on observations that are " +
                                 alone.at("observations").get<std::string>(),
                             alone));
  const Json& rollouts = json.at("rollouts");
  if (!rollouts.is_null()) {
    tables.push_back(TableData(
        fmt::format("in the rollouts, padded to batch {}", rollouts.at("batch_size").get<int>()),
        rollouts));
  }
  data page;
  page.set("tables", tables);
  page.set("deadline", fmt::format("{:g}", json.at("deadline_ms").get<double>()));
  page.set("control_hz", fmt::format("{:g}", json.at("control_hz").get<double>()));
  return page;
}

}  // namespace

std::string LatencyTable(const PolicyLatency& latency) {
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
  try {
    page->set("latency", PageData(Json::parse(ReadTextFile(file, kMaxLatencyBytes))));
  } catch (const Json::exception& fault) {
    throw Error(ErrorCode::kData, fmt::format("{}: {}", file.string(), fault.what()));
  }
}

}  // namespace dp_bench
