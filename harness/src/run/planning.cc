#include "run/planning.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/parse_number.h"
#include "run/run_files.h"

namespace dp_bench::run {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxLatencyBytes = std::size_t{64} << 20;
constexpr const char* kOfRollouts = "of the rollouts";

void VisitLatency(const core::JsonFields& fields, LatencySummary* c) {
  fields("n", &c->n);
  for (const auto& [key, seconds] : {std::pair("p50_ms", &c->p50_s),
                                     {"p95_ms", &c->p95_s},
                                     {"p99_ms", &c->p99_s},
                                     {"max_ms", &c->max_s}}) {
    double ms = 1e3 * *seconds;
    fields(key, &ms);
    *seconds = 1e-3 * ms;
  }
}

void VisitPlanning(const core::JsonFields& fields, PlanningSummary* c) {
  fields("batch_size", &c->batch_size);
  fields.Object("chunk", [&](const core::JsonFields& chunk) { VisitLatency(chunk, &c->chunk); });
  fields("share_late", &c->share_late);
}

Json ToJson(const PlanningSummary& planning) {
  Json json = core::ToFields(planning, VisitPlanning);
  json["stages"] = Json::object();
  for (const auto& [name, summary] : planning.stages) json["stages"][name] = ToJson(summary);
  return json;
}

PlanningSummary ToPlanning(const core::JsonView& json) {
  auto planning = core::FromFields<PlanningSummary>(json, VisitPlanning);
  for (const auto& [name, stage] : json.At("stages").Members()) {
    planning.stages[name] = core::FromFields<LatencySummary>(stage, VisitLatency);
  }
  return planning;
}

}  // namespace

LatencySummary SummarizeLatency(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::ranges::sort(seconds);
  const auto at = [&seconds](double fraction) {
    const double rank = std::ceil(fraction * static_cast<double>(seconds.size()));
    return seconds[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
  };
  return {.n = static_cast<int>(seconds.size()),
          .p50_s = at(0.5),
          .p95_s = at(0.95),
          .p99_s = at(0.99),
          .max_s = seconds.back()};
}

double ShareLate(std::span<const double> seconds, double deadline_s) {
  if (seconds.empty()) return 0.0;
  const auto n_late = std::ranges::count_if(seconds, [&](double s) { return s > deadline_s; });
  return static_cast<double>(n_late) / static_cast<double>(seconds.size());
}

Json ToJson(const LatencySummary& summary) { return core::ToFields(summary, VisitLatency); }

PlanningSummary Summarize(const PlanningLatency& planning, double deadline_s) {
  PlanningSummary summary = {.batch_size = planning.batch_size,
                             .chunk = SummarizeLatency(planning.chunk_s),
                             .share_late = ShareLate(planning.chunk_s, deadline_s)};
  for (const auto& [name, seconds] : planning.stage_s) {
    summary.stages[name] = SummarizeLatency(seconds);
  }
  std::vector<double> ascending = planning.chunk_s;
  std::ranges::sort(ascending);
  for (std::size_t percent = 0; percent <= 100 && !ascending.empty(); ++percent) {
    summary.quantiles_s.push_back(ascending[percent * (ascending.size() - 1) / 100]);
  }
  return summary;
}

Json ToJson(const PolicyLatencySummary& latency) {
  Json alone = ToJson(latency.alone);
  alone["quantiles_ms"] = Json::array();
  for (const double s : latency.alone.quantiles_s) alone["quantiles_ms"].push_back(1e3 * s);
  alone["observations"] = latency.is_of_recorded_obs ? kOfRollouts : "random numbers";
  Json json = {{"control_hz", latency.control_hz},
               {"deadline_ms", 1e3 * latency.deadline_s},
               {"batch_1", alone},
               {"rollouts", latency.in_rollouts ? ToJson(*latency.in_rollouts) : Json()}};
  if (!latency.load) return json;
  json["load_average"] = latency.load->average;
  json["n_processors"] = latency.load->n_processors;
  return json;
}

PolicyLatencySummary ParseLatency(std::string_view text, const std::string& origin) {
  const Json json = core::ParseJson(text, origin);
  const core::JsonView view(json, origin);
  const core::JsonView alone = view.At("batch_1");
  PolicyLatencySummary latency = {
      .control_hz = view.Get<double>("control_hz"),
      .deadline_s = 1e-3 * view.Get<double>("deadline_ms"),
      .alone = ToPlanning(alone),
      .is_of_recorded_obs = alone.Get<std::string>("observations") == kOfRollouts};
  if (view.Has("rollouts")) latency.in_rollouts = ToPlanning(view.At("rollouts"));
  if (view.Has("load_average")) {
    latency.load = {.average = view.Get<double>("load_average"),
                    .n_processors = view.Get<int>("n_processors")};
  }
  return latency;
}

std::vector<double> ReadLatencySamples(const std::filesystem::path& file) {
  const std::string origin = file.string();
  const std::string text = core::ReadTextFile(file, kMaxLatencyBytes);
  if (text.starts_with('{')) {
    const Json json = core::ParseJson(text, origin);
    const auto samples =
        core::JsonView(json, origin).At("batch_1").Get<std::vector<double>>("quantiles_ms");
    if (!samples.empty()) return samples;
    throw DataError("{}: it has no measured plans", origin);
  }
  std::vector<double> samples;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const auto ms = core::ParseNumber<double>(line);
    if (ms && *ms >= 0.0 && std::isfinite(*ms)) {
      samples.push_back(*ms);
    } else if (number > 1 || ms) {
      throw DataError("{}, line {}: expected a time in ms of at least 0, found '{}'", origin,
                      number, line);
    }
  }
  if (samples.empty())
    throw DataError("{}: expected a time in ms on each line, found none", origin);
  return samples;
}

void WriteLatency(const std::filesystem::path& folder, const PolicyLatencySummary& latency) {
  const std::filesystem::path file = folder / kLatencyFile;
  if (!latency.in_rollouts && std::filesystem::exists(file)) return;
  core::WriteFileAtomically(file, ToJson(latency).dump(2) + "\n");
}

}  // namespace dp_bench::run
