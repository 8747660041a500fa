#include "compare/delay_curves.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "compare/run_comparison.h"
#include "core/json.h"
#include "run/run_folder.h"

namespace dp_bench::compare {
namespace {

// Points of one place may be compared; the first has the method naive.
using GridPlace = std::tuple<std::optional<int>, std::optional<double>, int>;

GridPlace PlaceOf(const DelayPoint& point) { return {point.delay, point.delay_ms, point.execute}; }

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

DelayPointResult Describe(const DelayPoint& point, const run::RunFolder& run) {
  DelayPointResult result = {.point = point, .test = run::Summarize(run.episodes, "test")};
  result.success_rate = WilsonInterval(result.test.n_success, result.test.n_episodes);
  if (const auto latency = run.ReadLatency()) result.control_hz = latency->control_hz;
  result.over_time = DescribeSuccessOverTime(run.episodes, "test");
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

// Compares the methods of one place with each other.
void CompareMethods(std::span<DelayPointResult* const> place) {
  if (place.size() < 2) return;
  std::vector<run::RunFolder> runs;
  for (const DelayPointResult* result : place) runs.push_back(ReadPoint(result->point));
  const RunComparison comparison = CompareRuns(std::move(runs), {});
  const bool has_naive = place[0]->point.method == "naive";
  for (std::size_t i = 0; i < place.size(); ++i) {
    place[i]->letters = comparison.runs[i].letters;
    if (i > 0 && has_naive) place[i]->against_naive = EffectOf(comparison.candidates[i - 1]);
  }
}

nlohmann::json JsonOf(const std::optional<PairedEffect>& effect) {
  if (!effect) return nullptr;
  return {{"difference", effect->difference},
          {"low", effect->low},
          {"high", effect->high},
          {"p", effect->p},
          {"n_pairs", effect->n_pairs}};
}

}  // namespace

std::vector<DelayPointResult> CompareDelays(std::span<const DelayPoint> points) {
  std::vector<DelayPointResult> results;
  for (const DelayPoint& point : points) results.push_back(Describe(point, ReadPoint(point)));
  std::map<GridPlace, std::vector<DelayPointResult*>> places;
  for (DelayPointResult& result : results) places[PlaceOf(result.point)].push_back(&result);
  for (auto& [place, members] : places) {
    std::ranges::stable_partition(
        members, [](const DelayPointResult* result) { return result->point.method == "naive"; });
    CompareMethods(members);
  }
  for (DelayPointResult& result : results) {
    if (result.point.waits()) continue;
    const auto waiting = std::ranges::find_if(points, [&](const DelayPoint& other) {
      return other.waits() && other.method == result.point.method &&
             other.execute == result.point.execute;
    });
    if (waiting != points.end()) result.against_waiting = EffectBetween(*waiting, result.point);
  }
  return results;
}

nlohmann::json ToJson(const DelayPointResult& result, const std::filesystem::path& base) {
  const DelayPoint& point = result.point;
  const run::SplitSummary& test = result.test;
  const auto n_steps = static_cast<double>(std::max<std::int64_t>(1, test.n_steps));
  return {{"method", point.method},
          {"delay", point.delay ? nlohmann::json(*point.delay) : nlohmann::json()},
          {"delay_ms", point.delay_ms ? nlohmann::json(*point.delay_ms) : nlohmann::json()},
          {"execute", point.execute},
          {"folder", point.folder.lexically_proximate(base).string()},
          {"n_episodes", test.n_episodes},
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
          {"against_naive", JsonOf(result.against_naive)},
          {"against_waiting", JsonOf(result.against_waiting)},
          {"letters", result.letters}};
}

std::vector<DelayPoint> ReadDelayPoints(std::string_view text, const std::filesystem::path& folder,
                                        const std::string& origin) {
  const nlohmann::json parsed = core::ParseJson(text, origin);
  std::vector<DelayPoint> points;
  for (const core::JsonView& row : core::JsonView(parsed, origin).Elements("points")) {
    points.push_back({.method = row.Get<std::string>("method"),
                      .delay = row.GetOptional<int>("delay"),
                      .delay_ms = row.GetOptional<double>("delay_ms"),
                      .execute = row.Get<int>("execute"),
                      .folder = folder / row.Get<std::string>("folder")});
  }
  return points;
}

}  // namespace dp_bench::compare
