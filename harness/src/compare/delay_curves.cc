#include "compare/delay_curves.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compare/run_comparison.h"
#include "core/errors.h"
#include "core/json.h"
#include "run/run_folder.h"

namespace dp_bench::compare {
namespace {

PairedEffect EffectOf(const CandidateComparison& comparison) {
  const DifferenceInterval& rate = comparison.success_rate;
  return {.difference = rate.difference,
          .low = rate.low,
          .high = rate.high,
          .p = comparison.p_exact,
          .n_pairs = comparison.outcomes.counts.n()};
}

// The finished runs of the points, read when they are needed: a grid may have 10^5 episodes.
run::RunFolder ReadPoint(const DelayPoint& point) {
  return RequireComparable(run::ReadRunFolder(point.folder));
}

DelayPointResult Describe(const DelayPoint& point, const run::RunFolder& run, int horizon) {
  DelayPointResult result = {.point = point, .test = run::Summarize(run.episodes, "test")};
  result.success_rate = WilsonInterval(result.test.n_success, result.test.n_episodes);
  if (const auto latency = run.ReadLatency()) result.control_hz = latency->control_hz;
  result.over_time = DescribeSuccessOverTime(run.episodes, "test", horizon);
  for (const run::EpisodeRecord& record : run.episodes) {
    if (record.split != "test") continue;
    result.jerk_at_seams += record.jerk_at_seams;
    result.jerk_elsewhere += record.jerk_elsewhere;
  }
  result.jerk_at_seams /= std::max(1, result.test.n_episodes);
  result.jerk_elsewhere /= std::max(1, result.test.n_episodes);
  return result;
}

PairedEffect EffectBetween(const DelayPoint& from, const DelayPoint& to) {
  std::vector<run::RunFolder> runs;
  runs.push_back(ReadPoint(from));
  runs.push_back(ReadPoint(to));
  return EffectOf(CompareRuns(std::move(runs), {}).candidates[0]);
}

// Compares a point with the first one that is a reference; nothing if there is none or it is that.
template <class IsReference>
std::optional<PairedEffect> EffectAgainst(std::span<const DelayPoint> points,
                                          const DelayPoint& point,
                                          const IsReference& is_reference) {
  const auto found = std::ranges::find_if(points, is_reference);
  if (found == points.end() || &*found == &point) return std::nullopt;
  return EffectBetween(*found, point);
}

// Compares the points of one place with each other.
void AddLetters(std::span<DelayPointResult* const> place) {
  if (place.size() > kMaxComparedRuns) {
    throw DataError("{} evaluations have the same delay and execute, expected at most {}",
                    place.size(), kMaxComparedRuns);
  }
  if (place.size() < 2) return;
  std::vector<run::RunFolder> runs;
  for (const DelayPointResult* result : place) runs.push_back(ReadPoint(result->point));
  const RunComparison comparison = CompareRuns(std::move(runs), {.n_for_letters = 2});
  for (std::size_t i = 0; i < place.size(); ++i) place[i]->letters = comparison.runs[i].letters;
}

}  // namespace

std::vector<DelayPointResult> CompareDelays(std::span<const DelayPoint> points) {
  std::vector<DelayPointResult> results;
  int horizon = 0;
  for (const DelayPoint& point : points) {
    horizon = std::max(horizon, LongestEpisode(ReadPoint(point).episodes, "test"));
  }
  for (const DelayPoint& point : points) {
    results.push_back(Describe(point, ReadPoint(point), horizon));
  }
  std::map<GridPlace, std::vector<DelayPointResult*>> places;
  for (DelayPointResult& result : results) places[PlaceOf(result.point)].push_back(&result);
  for (auto& [place, members] : places) AddLetters(members);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const DelayPoint& point = points[i];
    results[i].against_naive = EffectAgainst(points, point, [&](const DelayPoint& other) {
      return other.method == "naive" && other.policy == point.policy &&
             PlaceOf(other) == PlaceOf(point);
    });
    results[i].against_first = EffectAgainst(points, point, [&](const DelayPoint& other) {
      return other.policy == points.front().policy && other.method == point.method &&
             PlaceOf(other) == PlaceOf(point);
    });
    if (point.waits()) continue;
    results[i].against_waiting = EffectAgainst(points, point, [&](const DelayPoint& other) {
      return other.waits() && other.policy == point.policy && other.method == point.method &&
             other.execute == point.execute;
    });
  }
  return results;
}

nlohmann::json ToJson(const DelayPoint& point, const std::filesystem::path& base) {
  return {{"method", point.method},
          {"delay", core::OrNull(point.delay)},
          {"delay_ms", core::OrNull(point.delay_ms)},
          {"execute", point.execute},
          {"folder", point.folder.lexically_proximate(base).string()}};
}

nlohmann::json ToJson(const DelayPointResult& result, const std::filesystem::path& base) {
  const DelayPoint& point = result.point;
  const run::SplitSummary& test = result.test;
  const auto n_steps = static_cast<double>(std::max<std::int64_t>(1, test.n_steps));
  nlohmann::json row = ToJson(point, base);
  row.update({{"n_episodes", test.n_episodes},
              {"n_success", test.n_success},
              {"n_failed", test.n_failed},
              {"success_rate", result.success_rate.rate},
              {"low", result.success_rate.low},
              {"high", result.success_rate.high},
              {"mean_score", test.mean_score},
              {"n_steps", test.n_steps},
              {"n_stale_steps", test.n_stale_steps},
              {"stale_share", static_cast<double>(test.n_stale_steps) / n_steps},
              {"late_share", test.n_plans > 0 ? static_cast<double>(test.n_late_plans) /
                                                    static_cast<double>(test.n_plans)
                                              : 0.0},
              {"over_time",
               result.over_time ? ToJson(*result.over_time, result.control_hz) : nlohmann::json()},
              {"jerk_at_seams", result.jerk_at_seams},
              {"jerk_elsewhere", result.jerk_elsewhere},
              {"against_naive", core::OrNull(result.against_naive)},
              {"against_waiting", core::OrNull(result.against_waiting)},
              {"letters", result.letters}});
  if (point.policy.empty()) return row;
  row["policy"] = point.policy;
  row["against_first"] = core::OrNull(result.against_first);
  return row;
}

DelayGridFile ReadDelayGrid(std::string_view text, const std::filesystem::path& folder,
                            const std::string& origin) {
  const nlohmann::json parsed = core::ParseJson(text, origin);
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
