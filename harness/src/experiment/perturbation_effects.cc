#include "experiment/perturbation_effects.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dp_bench/error.h"

namespace dp_bench::experiment {
namespace {

using Json = nlohmann::json;

// Episodes whose traces differ: 0 says that an arm had no effect at all, and not merely none on
// the outcomes.
int CountChanged(const compare::PairedOutcomes& outcomes) {
  return static_cast<int>(std::ranges::count_if(
      outcomes.pairs,
      [](const compare::EpisodePair& pair) { return pair.a.trace_hash != pair.b.trace_hash; }));
}

std::string Difference(double difference, double low, double high) {
  return fmt::format("{:+.3f} ({:+.3f} to {:+.3f})", difference, low, high);
}

std::string Row(const std::string& name, const compare::ComparedRun& run,
                const std::string& rate_effect, const std::string& score_effect,
                const std::string& changed) {
  return fmt::format("{:<14} {:>6.3f} {:>9}  {:<29}{:>6.3f}  {:<29}{:>8}\n", name,
                     run.success_rate.rate,
                     fmt::format("{}/{}", run.test.n_success, run.test.n_episodes), rate_effect,
                     run.test.mean_score, score_effect, changed);
}

Json RunJson(const compare::ComparedRun& run, const std::string& folder) {
  return {{"folder", folder},
          {"n_episodes", run.test.n_episodes},
          {"n_success", run.test.n_success},
          {"n_failed", run.test.n_failed},
          {"success_rate", run.success_rate.rate},
          {"mean_score", run.test.mean_score}};
}

}  // namespace

std::string PerturbationTable(const compare::RunComparison& comparison,
                              std::span<const PerturbationArm> arms) {
  DPB_ASSERT(comparison.candidates.size() == arms.size());
  std::string table =
      fmt::format("{:<14} {:>16}  {:<29}{:>6}  {:<29}{:>8}\n", "perturbation", "success rate",
                  "difference (95 % interval)", "score", "difference (95 % interval)", "changed");
  table += Row("none", comparison.runs[0], "", "", "");
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const compare::CandidateComparison& arm = comparison.candidates[i];
    const compare::DifferenceInterval& rate = arm.success_rate;
    table +=
        Row(arms[i].name, comparison.runs[i + 1], Difference(rate.difference, rate.low, rate.high),
            Difference(arm.score.mean, arm.score.low, arm.score.high),
            fmt::format("{}/{}", CountChanged(arm.outcomes), arm.outcomes.counts.n()));
  }
  for (const PerturbationArm& arm : arms) {
    if (!arm.note.empty()) table += "note: " + arm.note + "\n";
  }
  return table;
}

Json PerturbationJson(const compare::RunComparison& comparison,
                      std::span<const PerturbationArm> arms) {
  DPB_ASSERT(comparison.candidates.size() == arms.size());
  Json rows = Json::array();
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const compare::CandidateComparison& arm = comparison.candidates[i];
    Json row = RunJson(comparison.runs[i + 1], "perturbations/" + arms[i].name);
    row["name"] = arms[i].name;
    row["kind"] = arms[i].kind;
    row["strength"] = arms[i].strength ? Json(*arms[i].strength) : Json();
    row["note"] = arms[i].note;
    row["n_changed"] = CountChanged(arm.outcomes);
    row["success_rate_effect"] = {{"difference", arm.success_rate.difference},
                                  {"low", arm.success_rate.low},
                                  {"high", arm.success_rate.high},
                                  {"p_mcnemar", arm.p_exact},
                                  {"p_holm", arm.p_holm}};
    row["score_effect"] = {
        {"difference", arm.score.mean}, {"low", arm.score.low}, {"high", arm.score.high}};
    rows.push_back(row);
  }
  return {{"confidence", 0.95}, {"control", RunJson(comparison.runs[0], ".")}, {"arms", rows}};
}

}  // namespace dp_bench::experiment
