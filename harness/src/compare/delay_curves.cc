#include "compare/delay_curves.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "compare/run_comparison.h"
#include "compare/success_over_time.h"
#include "core/errors.h"
#include "core/json.h"
#include "run/run_folder.h"

namespace dp_bench::compare {
namespace {

using Json = nlohmann::json;

// The finished runs of the points, read when they are needed: a grid may have 10^5 episodes.
run::RunFolder ReadPoint(const DelayPoint& point) {
  return RequireComparable(run::ReadRunFolder(point.folder));
}

// What a point shows alone.
Json RowOf(const DelayPoint& point, const std::filesystem::path& base, int horizon) {
  const run::RunFolder run = ReadPoint(point);
  const run::SplitSummary test = run::Summarize(run.episodes, "test");
  const RateInterval rate = WilsonInterval(test.n_success, test.n_episodes);
  const auto latency = run.ReadLatency();
  const auto over_time = DescribeSuccessOverTime(run.episodes, "test", horizon);
  double at_seams = 0.0;
  double elsewhere = 0.0;
  for (const run::EpisodeRecord& record : run.episodes) {
    if (record.split != "test") continue;
    at_seams += record.jerk_at_seams;
    elsewhere += record.jerk_elsewhere;
  }
  const auto share = [](std::int64_t n, std::int64_t of) {
    return of > 0 ? static_cast<double>(n) / static_cast<double>(of) : 0.0;
  };
  Json row = ToJson(point, base);
  row.update(
      {{"n_episodes", test.n_episodes},
       {"n_success", test.n_success},
       {"n_failed", test.n_failed},
       {"success_rate", rate.rate},
       {"low", rate.low},
       {"high", rate.high},
       {"mean_score", test.mean_score},
       {"n_steps", test.n_steps},
       {"n_stale_steps", test.n_stale_steps},
       {"stale_share", share(test.n_stale_steps, test.n_steps)},
       {"late_share", share(test.n_late_plans, test.n_plans)},
       {"over_time", over_time ? ToJson(*over_time, latency ? latency->control_hz : 0.0) : Json()},
       {"jerk_at_seams", at_seams / test.n_episodes},
       {"jerk_elsewhere", elsewhere / test.n_episodes},
       {"letters", ""}});
  if (!point.policy.empty()) row["policy"] = point.policy;
  return row;
}

// Compares a point with the first one that is a reference; null if there is none or it is that.
template <class IsReference>
Json EffectAgainst(std::span<const DelayPoint> points, const DelayPoint& point,
                   const IsReference& is_reference) {
  const auto found = std::ranges::find_if(points, is_reference);
  if (found == points.end() || &*found == &point) return {};
  std::vector<run::RunFolder> runs;
  runs.push_back(ReadPoint(*found));
  runs.push_back(ReadPoint(point));
  const CandidateComparison comparison = CompareRuns(std::move(runs), {}).candidates[0];
  Json effect = comparison.success_rate;
  effect["p"] = comparison.p_exact;
  effect["n_pairs"] = comparison.outcomes.counts.n();
  return effect;
}

// Compares the points of one place, by their numbers in `points`, with each other.
void AddLetters(std::span<const DelayPoint> points, std::span<const std::size_t> place,
                Json* rows) {
  if (place.size() > kMaxComparedRuns) {
    throw DataError("{} evaluations have the same delay and execute, expected at most {}",
                    place.size(), kMaxComparedRuns);
  }
  if (place.size() < 2) return;
  std::vector<run::RunFolder> runs;
  for (const std::size_t i : place) runs.push_back(ReadPoint(points[i]));
  const RunComparison comparison = CompareRuns(std::move(runs), {.n_for_letters = 2});
  for (std::size_t k = 0; k < place.size(); ++k) {
    (*rows)[place[k]]["letters"] = comparison.runs[k].letters;
  }
}

}  // namespace

Json ToJson(const DelayPoint& point, const std::filesystem::path& base) {
  return {{"method", point.method},
          {"delay", core::OrNull(point.delay)},
          {"delay_ms", core::OrNull(point.delay_ms)},
          {"execute", point.execute},
          {"folder", point.folder.lexically_proximate(base).string()}};
}

Json CompareDelays(std::span<const DelayPoint> points, const std::filesystem::path& base) {
  int horizon = 0;
  for (const DelayPoint& point : points) {
    horizon = std::max(horizon, LongestEpisode(ReadPoint(point).episodes, "test"));
  }
  Json rows = Json::array();
  for (const DelayPoint& point : points) rows.push_back(RowOf(point, base, horizon));
  std::map<GridPlace, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < points.size(); ++i) places[PlaceOf(points[i])].push_back(i);
  for (const auto& [place, members] : places) AddLetters(points, members, &rows);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const DelayPoint& point = points[i];
    rows[i]["against_naive"] = EffectAgainst(points, point, [&](const DelayPoint& other) {
      return other.method == "naive" && other.policy == point.policy &&
             PlaceOf(other) == PlaceOf(point);
    });
    rows[i]["against_waiting"] = EffectAgainst(points, point, [&](const DelayPoint& other) {
      return !point.waits() && other.waits() && other.policy == point.policy &&
             other.method == point.method && other.execute == point.execute;
    });
    if (point.policy.empty()) continue;
    rows[i]["against_first"] = EffectAgainst(points, point, [&](const DelayPoint& other) {
      return other.policy == points.front().policy && other.method == point.method &&
             PlaceOf(other) == PlaceOf(point);
    });
  }
  return rows;
}

DelayGridFile ReadDelayGrid(std::string_view text, const std::filesystem::path& folder,
                            const std::string& origin) {
  const Json parsed = core::ParseJson(text, origin);
  const core::JsonView grid(parsed, origin);
  DelayGridFile file;
  file.is_quasi_static = grid.GetOptional<bool>("is_quasi_static").value_or(false);
  for (const core::JsonView& row : grid.Elements("points")) {
    const bool has_delay = row.GetOptional<int>("delay").has_value();
    if (has_delay == row.GetOptional<double>("delay_ms").has_value()) {
      row.Fail("expected delay or delay_ms");
    }
    file.points.push_back({.method = row.Get<std::string>("method"),
                           .delay = row.GetOptional<int>("delay"),
                           .delay_ms = row.GetOptional<double>("delay_ms"),
                           .execute = row.Get<int>("execute"),
                           .folder = folder / row.Get<std::string>("folder")});
  }
  return file;
}

}  // namespace dp_bench::compare
