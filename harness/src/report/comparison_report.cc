// For the text and the page see comparison.txt.mustache and comparison.html.mustache.
#include "report/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "compare/graded_score.h"
#include "compare/success_over_time.h"
#include "core/json.h"
#include "core/list_some.h"
#include "core/output_file.h"
#include "report/evaluation_text.h"
#include "report/html_report.h"
#include "report/render.h"
#include "report/success_over_time.h"

namespace dp_bench::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kListedSeeds = 20;  // of one kind, in the text

Json VideoJson(const run::EpisodeRecord& record) {
  return record.video.empty() ? Json() : Json(record.video);
}

// 0: not measured
double ControlHz(const run::RunFolder& run) {
  const std::optional<run::PolicyLatencySummary> latency = run.ReadLatency();
  return latency ? latency->control_hz : 0.0;
}

Json RunJson(const compare::ComparedRun& run, compare::RateMethod method, int horizon) {
  const std::string faults = WithoutFaultsText(run.test);
  Json rate = run.success_rate;
  rate["method"] = method == compare::RateMethod::kWilson ? "wilson" : "clopper_pearson";
  return {
      {"label", run.label},
      {"folder", run.files.path.string()},
      {"title", run::RunTitle(run.files)},
      {"n_episodes", run.test.n_episodes},
      {"n_success", run.test.n_success},
      {"n_failed", run.test.n_failed},
      {"without_faults", faults.empty() ? Json() : Json(faults)},
      {"mean_score", run.test.mean_score},
      {"success_rate", rate},
      {"over_time", SuccessOverTimeJson(run.files.episodes, "test", horizon, ControlHz(run.files))},
      {"letters", run.letters.empty() ? Json() : Json(run.letters)},
      {"rank", run.letters.empty() ? Json() : Json(run.rank)}};
}

Json PairsJson(const compare::RunComparison& comparison) {
  Json pairs = Json::array();
  for (const compare::RankedPair& pair : comparison.pairs) {
    pairs.push_back({{"a", comparison.runs[pair.a].label},
                     {"b", comparison.runs[pair.b].label},
                     {"log_a_better", pair.evidence.log_a_better},
                     {"log_b_better", pair.evidence.log_b_better},
                     {"is_different", pair.is_different}});
  }
  return pairs;
}

Json CandidateJson(const compare::CandidateComparison& candidate) {
  const compare::PairCounts& counts = candidate.outcomes.counts;
  Json discordant = Json::array();
  for (const compare::EpisodePair& pair : candidate.outcomes.pairs) {
    if (!pair.is_discordant()) continue;
    discordant.push_back({{"seed", pair.seed()},
                          {"success_a", pair.a.success},
                          {"success_b", pair.b.success},
                          {"score_a", pair.a.score},
                          {"score_b", pair.b.score},
                          {"video_a", VideoJson(pair.a)},
                          {"video_b", VideoJson(pair.b)}});
  }
  const bool is_paired = candidate.is_paired();
  Json rate = candidate.success_rate;
  rate["method"] = is_paired ? "newcombe_paired" : "newcombe";
  Json json = {{"why_unpaired", is_paired ? Json() : Json(candidate.why_unpaired)},
               {"n_pairs", counts.n()},
               {"success_rate", rate},
               // the infinite bounds of a single pair become null
               {"score",
                {{"difference", candidate.score.mean},
                 {"low", candidate.score.low},
                 {"high", candidate.score.high},
                 {"std_dev", candidate.score.std_dev},
                 {"method", is_paired ? "student_paired" : "welch"}}},
               {is_paired ? "mcnemar" : "fisher",
                {{"p_exact", candidate.p_exact},
                 {"p_mid", is_paired ? Json(candidate.p_mid) : Json()},
                 {"p_holm", candidate.p_holm}}},
               {"power",
                {{"discordant_rate", is_paired ? Json(candidate.discordant_rate) : Json()},
                 {is_paired ? "n_pairs" : "n_episodes", core::OrNull(candidate.n_to_detect)}}},
               {"discordant", discordant},
               {"only_in_a", candidate.outcomes.only_in_a},
               {"only_in_b", candidate.outcomes.only_in_b},
               {"mismatches", candidate.mismatches}};
  json.update(Json(counts));
  return json;
}

// Of candidate `i`, if its seeds are paired.
Json GradedJson(const compare::RunComparison& comparison, std::size_t i) {
  const compare::PairedOutcomes& outcomes = comparison.candidates[i].outcomes;
  Json graded = Json::array();
  for (const compare::GradedComparison& compared :
       compare::CompareGraded(comparison.runs[0].files, comparison.runs[i + 1].files, outcomes)) {
    graded.push_back(compared);
    graded.back()["text"] = fmt::format(
        "{} {:+.3f} ({:+.3f} to {:+.3f} at every look); evidence of worse {:.3g}, of better {:.3g}",
        compare::ScoreTitle(compared.decided_by), compared.difference, compared.low, compared.high,
        std::exp(compared.log_worse_evidence), std::exp(compared.log_better_evidence));
  }
  return graded;
}

// One bar per seed, the highest difference first: up or down from the middle of 120 pixels.
Json DifferenceBars(std::vector<double> differences) {
  constexpr double kMiddle = 60.0;
  std::ranges::sort(differences, std::greater<>());
  const double largest =
      std::max({1e-9, std::abs(differences.front()), std::abs(differences.back())});
  Json bars = Json::array();
  for (const double difference : differences) {
    const double height = std::abs(difference) / largest * (kMiddle - 4.0);
    bars.push_back({{"style", difference > 0.0 ? "up" : "down"},
                    {"height", height},
                    {"top", difference > 0.0 ? kMiddle - height : kMiddle}});
  }
  return {{"largest", largest}, {"bars", std::move(bars)}};
}

// "detecting a difference of 5 points takes about 340 shared seeds, 290 more (...)".
std::string PowerText(const compare::CandidateComparison& candidate, double difference) {
  const std::string wanted =
      fmt::format("detecting a difference of {:.3g} points", 100.0 * difference);
  if (!candidate.is_paired()) {
    return fmt::format("{} takes about {} episodes of each run (power 80 %, two-sided 5 %)", wanted,
                       candidate.n_to_detect.value_or(0));
  }
  if (!candidate.n_to_detect) {
    return fmt::format("{} takes more than {} shared seeds", wanted, compare::kMaxPairsToDetect);
  }
  const int n_more = *candidate.n_to_detect - candidate.outcomes.counts.n();
  return fmt::format(
      "{} takes about {} shared seeds, {} (power 80 %, two-sided 5 %, {:.0f} % of the seeds "
      "discordant)",
      wanted, *candidate.n_to_detect,
      n_more > 0 ? fmt::format("{} more", n_more) : "as in these runs",
      100.0 * candidate.discordant_rate);
}

// One of the two episodes of a seed. The page in `folder` links its video if the file exists.
Json SideJson(const compare::ComparedRun& run, const run::EpisodeRecord& record,
              const fs::path& folder) {
  Json side = {{"label", run.label},
               {"score", record.score},
               {"failed", record.failure_reason.has_value()},
               {"video", record.video.empty() ? "" : (run.files.path / record.video).string()},
               {"source", nullptr},
               {"poster", nullptr}};
  const std::optional<fs::path> video = run.files.VideoOf(record);
  if (!folder.empty() && video && fs::is_regular_file(*video)) {
    side["source"] = LinkTo(fs::relative(*video, folder));
    side["poster"] = VideoPoster(*video);
  }
  return side;
}

// The seeds that only one of the two runs solved. The text lists some of them.
Json WinnersJson(const compare::ComparedRun& a, const compare::ComparedRun& b,
                 const compare::PairedOutcomes& outcomes, const fs::path& folder) {
  Json winners = Json::array();
  for (const bool wins_a : {true, false}) {
    Json seeds = Json::array();
    for (const compare::EpisodePair& pair : outcomes.pairs) {
      if (!pair.is_discordant() || pair.a.success != wins_a) continue;
      seeds.push_back({{"seed", pair.seed()},
                       {"is_listed", seeds.size() < kListedSeeds},
                       {"sides", {SideJson(a, pair.a, folder), SideJson(b, pair.b, folder)}}});
    }
    const std::size_t n = seeds.size();
    winners.push_back({{"winner", (wins_a ? a : b).label},
                       {"seeds", std::move(seeds)},
                       {"n_more", n > kListedSeeds ? Json(n - kListedSeeds) : Json()}});
  }
  return winners;
}

// What the text and the page say beside ToJson.
void AddShown(const compare::RunComparison& comparison, std::size_t index, const fs::path& folder,
              Json* row) {
  const compare::ComparedRun& a = comparison.runs[0];
  const compare::ComparedRun& b = comparison.runs[index + 1];
  const compare::CandidateComparison& candidate = comparison.candidates[index];
  const compare::PairedOutcomes& outcomes = candidate.outcomes;
  const bool is_paired = candidate.is_paired();
  (*row)["label_a"] = a.label;
  (*row)["label_b"] = b.label;
  (*row)["is_paired"] = is_paired;
  (*row)["pairing"] = is_paired ? "paired" : "unpaired";
  (*row)["score_method"] = is_paired ? "Student" : "Welch";
  // a spread of 0 in the sample says nothing about other seeds
  (*row)["has_spread"] = candidate.score.low < candidate.score.high;
  (*row)["test"] = is_paired ? "McNemar" : "Fisher";
  (*row)["p"] = candidate.p_exact;
  (*row)["p_holm"] = comparison.candidates.size() > 1 ? Json(candidate.p_holm) : Json();
  (*row)["power_text"] = PowerText(candidate, comparison.options.difference);
  (*row)["winners"] = WinnersJson(a, b, outcomes, folder);
  if (is_paired) (*row)["differences"] = DifferenceBars(compare::ScoreDifferences(outcomes));
  (*row)["missing"] = Json::array();
  for (const auto& [run, seeds] :
       {std::pair(&b, &outcomes.only_in_a), std::pair(&a, &outcomes.only_in_b)}) {
    if (seeds->empty()) continue;
    (*row)["missing"].push_back(
        {{"run", run->label}, {"seeds", core::ListSome(*seeds, kListedSeeds)}});
  }
}

std::string TitleOf(const compare::RunComparison& comparison) {
  std::string title;
  for (std::size_t i = 1; i < comparison.runs.size(); ++i) {
    title += (title.empty() ? "" : ", ") + comparison.runs[i].label;
  }
  const std::string task = run::TaskTitle(comparison.runs[0].files);
  return title + " against A" + (task.empty() ? "" : " on " + task);
}

// `folder`: of the page; empty for the text.
Json ShownJson(const compare::RunComparison& comparison, const fs::path& folder) {
  Json shown = ToJson(comparison);
  shown["title"] = TitleOf(comparison);
  const bool is_exact = comparison.options.rate_method != compare::RateMethod::kWilson;
  shown["is_exact"] = is_exact;
  shown["method"] = is_exact ? "Clopper-Pearson" : "Wilson";
  shown["has_letters"] = !comparison.pairs.empty();
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    shown["runs"][i]["ranks"] = compare::RankText(comparison.runs[i].rank);
  }
  shown["n_candidates"] = comparison.candidates.size();
  for (std::size_t i = 0; i < comparison.candidates.size(); ++i) {
    AddShown(comparison, i, folder, &shown["comparisons"][i]);
  }
  return shown;
}

}  // namespace

std::string ComparisonText(const compare::RunComparison& comparison) {
  return Render("comparison.txt", ShownJson(comparison, {}));
}

Json ToJson(const compare::RunComparison& comparison) {
  int horizon = 0;
  for (const compare::ComparedRun& run : comparison.runs) {
    horizon = std::max(horizon, compare::LongestEpisode(run.files.episodes, "test"));
  }
  Json runs = Json::array();
  for (const compare::ComparedRun& run : comparison.runs) {
    runs.push_back(RunJson(run, comparison.options.rate_method, horizon));
  }
  Json candidates = Json::array();
  for (std::size_t i = 0; i < comparison.candidates.size(); ++i) {
    Json row = CandidateJson(comparison.candidates[i]);
    row["a"] = comparison.runs[0].label;
    row["b"] = comparison.runs[i + 1].label;
    row["graded"] = GradedJson(comparison, i);
    candidates.push_back(row);
  }
  return {{"confidence", 0.95},
          {"correction", comparison.candidates.size() > 1 ? Json("holm") : Json()},
          {"difference_to_detect", comparison.options.difference},
          {"runs", runs},
          {"comparisons", candidates},
          {"all_pairs", PairsJson(comparison)},
          {"notes", comparison.notes}};
}

void WriteComparisonReport(const compare::RunComparison& comparison, const fs::path& file) {
  Json shown = ShownJson(comparison, fs::absolute(file).parent_path());
  LinePlot plot = SuccessOverTimePlot();
  for (const Json& run : shown["runs"]) {
    AddSuccessCurve(run["over_time"], run["label"].get<std::string>(), &plot);
  }
  Json plots = Json::array();
  AppendPlot(plot, &plots);
  if (!plots.empty()) shown["success_over_time"] = {{"plots", plots}};
  core::WriteOutput(file, Render("comparison.html", shown));
}

}  // namespace dp_bench::report
