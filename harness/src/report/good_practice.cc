#include "report/good_practice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "compare/failure_clusters.h"
#include "core/json.h"
#include "core/median.h"
#include "report/evaluation_text.h"
#include "report/render.h"

namespace dp_bench::report {
namespace {

using Json = nlohmann::json;
using TestRecords = std::vector<const run::EpisodeRecord*>;

std::string TextAt(const Json& config, const char* pointer) {
  const Json value = core::ValueAt(config, pointer);
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

Json StartJson(const run::RunFolder& run, const TestRecords& records, const Json& config) {
  const auto certificate = run::DeterminismOf(run.manifest);
  const auto* first = std::ranges::min(records, {}, &run::EpisodeRecord::seed);
  return {{"seeds", {{"first", first->seed}, {"n", records.size()}}},
          {"env", TextAt(config, "/env/plugin")},
          {"params", TextAt(config, "/env/params")},
          {"perturbation", TextAt(config, "/env/perturb")},
          {"certificate", certificate ? run::Describe(*certificate) : ""}};
}

// One that shows best: with a video if there is one.
const run::EpisodeRecord* ExampleOf(const TestRecords& records) {
  const auto with_video = std::ranges::find_if(
      records, [](const run::EpisodeRecord* record) { return !record->video.empty(); });
  return with_video == records.end() ? records.front() : *with_video;
}

// Empty without a video on the page.
std::string LinkToVideo(const run::EpisodeRecord& record) {
  return LinkBelow(record.video).empty() ? "" : fmt::format("#test_{}", record.seed);
}

Json SuccessJson(const TestRecords& records, const Json& config) {
  Json success = {{"params", Json::array()},
                  {"score_metric", TextAt(config, "/env_runner/score_metric")}};
  const Json params = core::ValueAt(config, "/env/params");
  for (const auto& [key, value] : params.items()) {
    if (key.find("success") == std::string::npos) continue;
    success["params"].push_back(fmt::format("{} = {}", key, value.dump()));
  }
  TestRecords lost;
  for (const run::EpisodeRecord* record : records) {
    const run::SuccessSteps& steps = record->success_steps;
    if (record->success && steps.first > 0 && steps.at_end == 0) lost.push_back(record);
  }
  success["n_lost_again"] = lost.size();
  if (lost.empty()) return success;
  success["lost_again"] = ExampleOf(lost)->seed;
  success["lost_href"] = LinkToVideo(*ExampleOf(lost));
  return success;
}

Json FailureExamples(const run::RunFolder& run) {
  Json examples = Json::array();
  for (const compare::FailureCluster& cluster : compare::FailureClusters(run.episodes, "test")) {
    const run::EpisodeRecord* example = ExampleOf(cluster.episodes);
    examples.push_back({{"kind", compare::NameOf(cluster.kind)},
                        {"meaning", compare::MeaningOf(cluster.kind)},
                        {"n", cluster.episodes.size()},
                        {"seed", example->seed},
                        {"href", LinkToVideo(*example)},
                        {"command", ReplayCommand(run.path.string(), example->episode)}});
  }
  return examples;
}

Json DuplicatesJson(const TestRecords& records) {
  std::map<std::string, std::vector<std::uint64_t>> seeds;  // by first observation
  int n_known = 0;
  for (const run::EpisodeRecord* record : records) {
    if (!record->course || record->course->first_obs.empty()) continue;
    seeds[record->course->first_obs].push_back(record->seed);
    ++n_known;
  }
  if (n_known == 0) return {};
  std::vector<std::vector<std::uint64_t>> groups;  // of two seeds or more, the largest first
  for (auto& [hash, group] : seeds) {
    if (group.size() > 1) groups.push_back(std::move(group));
  }
  std::ranges::stable_sort(groups, std::ranges::greater(), &std::vector<std::uint64_t>::size);
  Json texts = Json::array();
  for (const auto& group : groups) texts.push_back(fmt::format("{}", fmt::join(group, ", ")));
  return {{"n_known", n_known}, {"n_distinct", seeds.size()}, {"groups", std::move(texts)}};
}

// Both are 0 in rows of older versions.
Json JerkJson(const TestRecords& records, bool of_success) {
  std::vector<double> at_seams;
  std::vector<double> elsewhere;
  for (const run::EpisodeRecord* record : records) {
    if (record->success != of_success) continue;
    if (record->jerk_at_seams == 0.0 && record->jerk_elsewhere == 0.0) continue;
    at_seams.push_back(record->jerk_at_seams);
    elsewhere.push_back(record->jerk_elsewhere);
  }
  if (at_seams.empty()) return {};
  return {{"n", at_seams.size()},
          {"at_seams", core::Median(at_seams)},
          {"elsewhere", core::Median(elsewhere)}};
}

Json ComparisonsJson(const run::RunFolder& run) {
  Json made = Json::object();
  const auto curve = run.curves.find("test/mean_score");
  if (curve != run.curves.end() && !curve->second.empty()) {
    made["n_checkpoints"] = curve->second.size();
  }
  if (run.seeds && run.seeds->selection.n > 0) {
    made["selection"] = {{"first", run.seeds->selection.first}, {"n", run.seeds->selection.n}};
  }
  const auto effects = run.ReadEffects();
  if (effects && !effects->arms.empty()) made["n_arms"] = effects->arms.size();
  return made;
}

}  // namespace

Json PracticeJson(const run::RunFolder& run) {
  TestRecords records;
  for (const run::EpisodeRecord& record : run.episodes) {
    if (record.split == "test") records.push_back(&record);
  }
  if (records.empty()) return {};
  const Json config = core::TryParseJson(run.config);
  const Json of_success = JerkJson(records, true);
  const Json of_failure = JerkJson(records, false);
  return {{"start", StartJson(run, records, config)},
          {"success", SuccessJson(records, config)},
          {"failures", FailureExamples(run)},
          {"duplicates", DuplicatesJson(records)},
          {"has_jerk", !of_success.is_null() || !of_failure.is_null()},
          {"jerk", {{"of_success", of_success}, {"of_failure", of_failure}}},
          {"comparisons", ComparisonsJson(run)}};
}

}  // namespace dp_bench::report
