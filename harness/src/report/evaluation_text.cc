// See result.txt.mustache, effects.txt.mustache, latency.txt.mustache and failures.txt.mustache.
#include "report/evaluation_text.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "compare/failure_clusters.h"
#include "compare/intervals.h"
#include "compare/success_over_time.h"
#include "core/shell.h"
#include "report/render.h"
#include "report/success_over_time.h"
#include "run/run_cost.h"

namespace dp_bench::report {
namespace {

using Json = nlohmann::json;

// A reason may have several lines: layers add context.
std::string Indented(const std::string& text) {
  std::string indented;
  for (const char c : text) {
    indented += c;
    if (c == '\n') indented += "    ";
  }
  return indented;
}

// "-0.120 (-0.250 to +0.010)"
std::string EffectText(const run::ArmDifference& effect) {
  const auto text = [](double value) {
    return std::isfinite(value) ? fmt::format("{:+.3f}", value) : std::string("open");
  };
  return fmt::format("{} ({} to {})", text(effect.difference), text(effect.low), text(effect.high));
}

Json ArmJson(const std::string& name, const std::string& folder, const run::SplitSummary& result) {
  const std::string faults = WithoutFaultsText(result);
  return {{"name", faults.empty() ? name : fmt::format("{}, {}", name, faults)},
          {"folder", folder},
          {"n_episodes", result.n_episodes},
          {"n_success", result.n_success},
          {"success_rate", result.success_rate},
          {"mean_score", result.mean_score}};
}

Json LatencyTableJson(const std::string& title, const run::PlanningSummary& planning) {
  const auto row = [](const std::string& name, const run::LatencySummary& latency) {
    Json json = ToJson(latency);
    json["name"] = name;
    return json;
  };
  Json rows = Json::array({row("whole chunk", planning.chunk)});
  for (const auto& [name, stage] : planning.stages) rows.push_back(row("  " + name, stage));
  return {{"title", title}, {"rows", rows}, {"share_late", planning.share_late}};
}

// Episodes that failed for the same reason are told together.
Json FailedJson(std::span<const run::EpisodeRecord> records) {
  Json failed = Json::array();
  std::map<std::pair<std::string, std::string>, std::size_t> places;  // by split and reason
  for (const run::EpisodeRecord& record : records) {
    if (!record.failure_reason) continue;
    const auto [place, is_new] =
        places.try_emplace({record.split, *record.failure_reason}, failed.size());
    if (is_new) {
      failed.push_back({{"split", record.split},
                        {"seed", record.seed},
                        {"n_steps", record.n_steps},
                        {"n_more", nullptr},
                        {"reason", Indented(*record.failure_reason)}});
    } else {
      Json& n_more = failed[place->second]["n_more"];
      n_more = n_more.is_null() ? 1 : n_more.get<int>() + 1;
    }
  }
  return failed;
}

constexpr std::size_t kMostSeeds = 1000;  // of a cluster, on the page

Json ClusterJson(const compare::FailureCluster& cluster, const std::string& run_path) {
  Json signs = Json::array();
  for (const compare::FailureSign& sign : cluster.signs) {
    signs.push_back({{"when", signs.empty() ? "earliest sign" : "then"}, {"text", sign.text}});
  }
  Json seeds = Json::array();
  std::string commands;
  for (const run::EpisodeRecord* record : cluster.episodes) {
    if (seeds.size() == kMostSeeds) break;
    const std::string link = LinkBelow(record->video);
    seeds.push_back({{"seed", record->seed}, {"href", link}});
    if (!link.empty()) continue;
    commands += ReplayCommand(run_path, record->episode) + "\n";
  }
  const std::size_t n_more = cluster.episodes.size() - seeds.size();
  return {{"name", compare::NameOf(cluster.kind)},
          {"meaning", compare::MeaningOf(cluster.kind)},
          {"n", cluster.episodes.size()},
          {"score", cluster.median_score},
          {"signs", signs},
          {"note", cluster.note},
          {"seeds", seeds},
          {"n_more", n_more > 0 ? Json(n_more) : Json()},
          {"commands", commands}};
}

}  // namespace

std::string ReplayCommand(const std::string& run_path, int episode) {
  return fmt::format("dp_bench replay --run {} --episode {}", core::ShellWord(run_path), episode);
}

std::string WithoutFaultsText(const run::SplitSummary& summary) {
  const int n = summary.n_episodes - summary.n_policy_faults;
  if (summary.n_policy_faults == 0 || n == 0) return {};
  return fmt::format("{:.1f} % without {} policy fault{}", 100.0 * summary.n_success / n,
                     summary.n_policy_faults, summary.n_policy_faults == 1 ? "" : "s");
}

Json SplitJson(std::span<const run::EpisodeRecord> records, std::string_view split) {
  const run::SplitSummary summary = run::Summarize(records, split);
  Json json = compare::WilsonInterval(summary.n_success, summary.n_episodes);
  json["split"] = split;
  json["mean_score"] = summary.mean_score;
  json["n_failed"] = summary.n_failed;
  json["n_steps"] = summary.n_steps;
  if (summary.n_policy_faults > 0) {
    json["policy_faults"] =
        compare::WilsonInterval(summary.n_success, summary.n_episodes - summary.n_policy_faults);
    json["policy_faults"]["n_faults"] = summary.n_policy_faults;
    json["policy_faults"]["has_others"] = summary.n_episodes > summary.n_policy_faults;
  }
  json["over_time"] = SuccessOverTimeJson(records, split, compare::LongestEpisode(records, split));
  json["n_stale_steps"] = summary.n_stale_steps > 0 ? Json(summary.n_stale_steps) : Json();
  return json;
}

Json EffectsJson(const run::PerturbationEffects& effects) {
  Json arms = Json::array({ArmJson("none", ".", effects.control)});
  Json notes = Json::array();
  for (const run::PerturbedArm& arm : effects.arms) {
    Json row = ArmJson(arm.name, arm.folder, arm.result);
    row["rate_effect"] = EffectText(arm.success_rate);
    // equal differences say nothing about other seeds, unless no episode changed at all
    const bool has_no_spread = arm.score.low == arm.score.high && arm.n_changed != 0;
    row["score_effect"] = has_no_spread ? fmt::format("{:+.3f} (no spread)", arm.score.difference)
                                        : EffectText(arm.score);
    row["changed"] = arm.n_changed ? Json(*arm.n_changed) : Json("unknown");
    row["n_pairs"] = arm.n_pairs > 0 ? Json(arm.n_pairs) : Json();
    arms.push_back(row);
    if (!arm.note.empty()) notes.push_back(arm.note);
  }
  return {{"arms", arms}, {"arm_notes", notes}};
}

Json LatencyJson(const run::PolicyLatencySummary& latency) {
  Json tables = Json::array();
  if (latency.alone.chunk.n > 0) {
    tables.push_back(LatencyTableJson(
        fmt::format("at batch 1, as on a robot, on {}{}",
                    latency.is_of_recorded_obs ? "observations of the rollouts" : "random numbers",
                    latency.load ? ", at a " + run::Describe(*latency.load) : ""),
        latency.alone));
  }
  if (latency.in_rollouts) {
    tables.push_back(LatencyTableJson(
        fmt::format("in the rollouts, padded to batch {}", latency.in_rollouts->batch_size),
        *latency.in_rollouts));
  }
  return {{"control_hz", latency.control_hz},
          {"deadline_ms", 1e3 * latency.deadline_s},
          {"is_unmeasured", latency.alone.chunk.n == 0},
          {"tables", tables}};
}

Json FailuresJson(std::span<const run::EpisodeRecord> records, std::string_view split,
                  const std::string& run_path) {
  Json clusters = Json::array();
  for (const compare::FailureCluster& cluster : compare::FailureClusters(records, split)) {
    clusters.push_back(ClusterJson(cluster, run_path));
  }
  return clusters;
}

std::string ResultTable(const run::RunResult& result) {
  Json splits = Json::array();
  for (const char* split : {"train", "test"}) {
    splits.push_back(SplitJson(result.records, split));
    if (splits.back()["n"] == 0) splits.erase(splits.size() - 1);
  }
  return Render("result.txt", Json{{"splits", splits}, {"failed", FailedJson(result.records)}});
}

std::string EffectsTable(const run::PerturbationEffects& effects) {
  return Render("effects.txt", EffectsJson(effects));
}

std::string LatencyTable(const run::PolicyLatencySummary& latency) {
  return Render("latency.txt", LatencyJson(latency));
}

std::string FailureText(std::span<const run::EpisodeRecord> records) {
  Json splits = Json::array();
  for (const char* split : {"train", "test"}) {
    Json row = SplitJson(records, split);
    row["clusters"] = FailuresJson(records, split, /*run_path=*/"");
    if (row["clusters"].empty()) continue;
    row["n_unsuccessful"] = row["n"].get<int>() - row["n_success"].get<int>();
    splits.push_back(row);
  }
  return Render("failures.txt", Json{{"splits", splits}});
}

}  // namespace dp_bench::report
