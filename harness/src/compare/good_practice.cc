#include "compare/good_practice.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/json.h"
#include "core/median.h"

namespace dp_bench::compare {
namespace {

using Json = nlohmann::json;
using TestRecords = std::vector<const run::EpisodeRecord*>;

constexpr const char* kTest = "test";

std::string TextOf(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

InitialConditions StartOf(const run::RunFolder& run, const TestRecords& records,
                          const Json& config) {
  InitialConditions start = {.env = TextOf(core::ValueAt(config, "/env/plugin")),
                             .params = TextOf(core::ValueAt(config, "/env/params")),
                             .perturbation = TextOf(core::ValueAt(config, "/env/perturb"))};
  start.seeds.first = std::ranges::min(records, {}, &run::EpisodeRecord::seed)->seed;
  start.seeds.n = static_cast<int>(records.size());
  if (const auto certificate = run::DeterminismOf(run.manifest)) {
    start.certificate = run::Describe(*certificate);
  }
  return start;
}

// One that shows best: with a video if there is one.
const run::EpisodeRecord* ExampleOf(const TestRecords& records) {
  const auto with_video = std::ranges::find_if(
      records, [](const run::EpisodeRecord* record) { return !record->video.empty(); });
  return with_video == records.end() ? records.front() : *with_video;
}

SuccessCriterion CriterionOf(const TestRecords& records, const Json& config) {
  SuccessCriterion success = {.score_metric =
                                  TextOf(core::ValueAt(config, "/env_runner/score_metric"))};
  const Json params = core::ValueAt(config, "/env/params");
  for (const auto& [key, value] : params.items()) {
    if (key.find("success") == std::string::npos) continue;
    success.params.push_back(fmt::format("{} = {}", key, value.dump()));
  }
  TestRecords lost;
  for (const run::EpisodeRecord* record : records) {
    const run::SuccessSteps& steps = record->success_steps;
    if (record->success && steps.first > 0 && steps.at_end == 0) lost.push_back(record);
  }
  success.n_lost_again = static_cast<int>(lost.size());
  if (!lost.empty()) success.lost_again = ExampleOf(lost)->seed;
  return success;
}

std::vector<FailureExample> ExamplesOf(const run::RunFolder& run) {
  std::vector<FailureExample> examples;
  for (const FailureCluster& cluster : FailureClusters(run.episodes, kTest)) {
    const run::EpisodeRecord* example = ExampleOf(cluster.episodes);
    examples.push_back({.kind = cluster.kind,
                        .n = static_cast<int>(cluster.episodes.size()),
                        .episode = example->episode,
                        .seed = example->seed,
                        .has_video = !example->video.empty()});
  }
  return examples;
}

DuplicateStarts DuplicatesIn(const TestRecords& records) {
  std::map<std::string, std::vector<std::uint64_t>> seeds;  // by first observation
  DuplicateStarts found;
  for (const run::EpisodeRecord* record : records) {
    if (!record->course || record->course->first_obs.empty()) continue;
    seeds[record->course->first_obs].push_back(record->seed);
    ++found.n_known;
  }
  found.n_distinct = static_cast<int>(seeds.size());
  for (auto& [hash, group] : seeds) {
    if (group.size() > 1) found.groups.push_back(std::move(group));
  }
  std::ranges::stable_sort(found.groups, std::ranges::greater(), &std::vector<std::uint64_t>::size);
  return found;
}

// Both are 0 in rows of older versions.
TypicalJerk JerkIn(const TestRecords& records, bool of_success) {
  std::vector<double> at_seams;
  std::vector<double> elsewhere;
  for (const run::EpisodeRecord* record : records) {
    if (record->success != of_success) continue;
    if (record->jerk_at_seams == 0.0 && record->jerk_elsewhere == 0.0) continue;
    at_seams.push_back(record->jerk_at_seams);
    elsewhere.push_back(record->jerk_elsewhere);
  }
  return {.n = static_cast<int>(at_seams.size()),
          .at_seams = core::Median(at_seams),
          .elsewhere = core::Median(elsewhere)};
}

Comparisons ComparisonsOf(const run::RunFolder& run) {
  Comparisons made;
  const auto curve = run.curves.find("test/mean_score");
  if (curve != run.curves.end()) made.n_checkpoints = static_cast<int>(curve->second.size());
  if (run.seeds) made.selection = run.seeds->selection;
  if (const auto effects = run.ReadEffects()) made.n_arms = static_cast<int>(effects->arms.size());
  return made;
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json RangeOrNull(const run::SeedRange& range) {
  if (range.n == 0) return {};
  return {{"first", range.first}, {"n", range.n}};
}

Json JerkJson(const TypicalJerk& jerk) {
  if (jerk.n == 0) return {};
  return {{"n", jerk.n}, {"at_seams", jerk.at_seams}, {"elsewhere", jerk.elsewhere}};
}

}  // namespace

std::optional<GoodPractice> DescribePractice(const run::RunFolder& run) {
  TestRecords records;
  for (const run::EpisodeRecord& record : run.episodes) {
    if (record.split == kTest) records.push_back(&record);
  }
  if (records.empty()) return std::nullopt;
  const Json config = core::TryParseJson(run.config);
  return GoodPractice{.start = StartOf(run, records, config),
                      .success = CriterionOf(records, config),
                      .failures = ExamplesOf(run),
                      .duplicates = DuplicatesIn(records),
                      .of_success = JerkIn(records, true),
                      .of_failure = JerkIn(records, false),
                      .comparisons = ComparisonsOf(run)};
}

Json ToJson(const GoodPractice& practice) {
  const InitialConditions& start = practice.start;
  Json failures = Json::array();
  for (const FailureExample& each : practice.failures) {
    failures.push_back({{"kind", NameOf(each.kind)},
                        {"meaning", MeaningOf(each.kind)},
                        {"n", each.n},
                        {"episode", each.episode},
                        {"seed", each.seed},
                        {"has_video", each.has_video}});
  }
  const DuplicateStarts& same = practice.duplicates;
  const SuccessCriterion& success = practice.success;
  return {{"start",
           {{"seeds", RangeOrNull(start.seeds)},
            {"env", TextOrNull(start.env)},
            {"params", TextOrNull(start.params)},
            {"perturbation", TextOrNull(start.perturbation)},
            {"certificate", TextOrNull(start.certificate)}}},
          {"success",
           {{"params", success.params},
            {"score_metric", TextOrNull(success.score_metric)},
            {"n_lost_again", success.n_lost_again},
            {"lost_again", core::OrNull(success.lost_again)}}},
          {"failures", failures},
          {"duplicates", same.n_known == 0 ? Json()
                                           : Json{{"n_known", same.n_known},
                                                  {"n_distinct", same.n_distinct},
                                                  {"groups", same.groups}}},
          {"jerk",
           {{"of_success", JerkJson(practice.of_success)},
            {"of_failure", JerkJson(practice.of_failure)}}},
          {"comparisons",
           {{"n_checkpoints", practice.comparisons.n_checkpoints},
            {"selection", RangeOrNull(practice.comparisons.selection)},
            {"n_arms", practice.comparisons.n_arms}}}};
}

}  // namespace dp_bench::compare
