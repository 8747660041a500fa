// The two forms of a RunComparison: text for people, JSON for programs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compare/run_comparison.h"

namespace dp_bench {
namespace {

using Json = nlohmann::json;

std::string RunTable(const RunComparison& comparison) {
  const bool has_letters = !comparison.pairs.empty();
  std::string text;
  for (const ComparedRun& run : comparison.runs) {
    text += fmt::format("{}  {}  ({})\n", run.label, run.files.path.string(), RunTitle(run.files));
  }
  text += fmt::format("\n{:<4}{:>12}  {:<16}{:>10}{:>12}{:>8}{}\n", "run", "success rate",
                      "95 % interval", "episodes", "mean score", "failed",
                      has_letters ? "  letters" : "");
  for (const ComparedRun& run : comparison.runs) {
    const RateInterval& rate = run.success_rate;
    text += fmt::format("{:<4}{:>12.3f}  {:<16}{:>10}{:>12.3f}{:>8}{}{}\n", run.label, rate.rate,
                        fmt::format("{:.3f} to {:.3f}", rate.low, rate.high),
                        fmt::format("{}/{}", rate.n_success, rate.n), run.test.mean_score,
                        run.test.n_failed, has_letters ? "  " : "", run.letters);
  }
  if (comparison.options.rate_method != RateMethod::kWilson) {
    text += fmt::format("intervals: {}\n", MethodName(comparison.options.rate_method));
  }
  if (has_letters) {
    text +=
        "runs that share a letter are not shown to differ (McNemar, Holm's correction for all "
        "pairs, 5 %)\n";
  }
  return text;
}

std::string VideoText(const ComparedRun& run, const EpisodeRecord& record) {
  return record.video.empty() ? "no video" : (run.files.path / record.video).string();
}

std::string DiscordantText(const ComparedRun& a, const ComparedRun& b,
                           const PairedOutcomes& outcomes) {
  std::string text;
  for (const bool wins_a : {true, false}) {
    for (const EpisodePair& pair : outcomes.pairs) {
      if (!pair.is_discordant() || pair.a.success != wins_a) continue;
      text += fmt::format("  only {} succeeds  seed {}  {}  {}\n", (wins_a ? a : b).label,
                          pair.seed(), VideoText(a, pair.a), VideoText(b, pair.b));
    }
  }
  return text;
}

std::string SeedList(const std::vector<std::uint64_t>& seeds) {
  return fmt::format("{}", fmt::join(seeds, ", "));
}

std::string MissingText(const ComparedRun& a, const ComparedRun& b,
                        const PairedOutcomes& outcomes) {
  std::string text;
  if (!outcomes.only_in_a.empty()) {
    text += fmt::format("  {} did not run: {}\n", b.label, SeedList(outcomes.only_in_a));
  }
  if (!outcomes.only_in_b.empty()) {
    text += fmt::format("  {} did not run: {}\n", a.label, SeedList(outcomes.only_in_b));
  }
  return text;
}

std::string CandidateText(const RunComparison& comparison, std::size_t index) {
  const ComparedRun& a = comparison.runs[0];
  const ComparedRun& b = comparison.runs[index + 1];
  const CandidateComparison& candidate = comparison.candidates[index];
  const PairCounts& counts = candidate.outcomes.counts;
  std::string text =
      fmt::format("\n{} against {}, {} shared seeds\n", b.label, a.label, counts.n());
  for (const Mismatch& mismatch : candidate.mismatches) {
    text += fmt::format("  NOT COMPARABLE: {} is {} in {}, {} in {}\n", mismatch.field, mismatch.a,
                        a.label, mismatch.b, b.label);
  }
  text += fmt::format(
      "  success rate  {:+.3f}  95 % interval {:+.3f} to {:+.3f} (Newcombe, paired)\n",
      candidate.success_rate.difference, candidate.success_rate.low, candidate.success_rate.high);
  text +=
      fmt::format("  mean score    {:+.3f}  95 % interval {:+.3f} to {:+.3f} (Student, paired)\n",
                  candidate.score.mean, candidate.score.low, candidate.score.high);
  text += fmt::format("  seeds         both succeed {}, only {} {}, only {} {}, neither {}\n",
                      counts.both_succeed, a.label, counts.only_a, b.label, counts.only_b,
                      counts.neither);
  text += fmt::format("  McNemar       p = {:.4f} (exact, two-sided)", candidate.p_exact);
  if (comparison.candidates.size() > 1) {
    text += fmt::format("; {:.4f} with Holm's correction for {} candidates", candidate.p_holm,
                        comparison.candidates.size());
  }
  text += "\n  power         " + PowerText(candidate, comparison.options.difference) + "\n";
  return text + DiscordantText(a, b, candidate.outcomes) + MissingText(a, b, candidate.outcomes);
}

Json VideoJson(const EpisodeRecord& record) {
  return record.video.empty() ? Json() : Json(record.video);
}

Json RunJson(const ComparedRun& run, RateMethod method) {
  return {{"label", run.label},
          {"folder", run.files.path.string()},
          {"title", RunTitle(run.files)},
          {"n_episodes", run.test.n_episodes},
          {"n_success", run.test.n_success},
          {"n_failed", run.test.n_failed},
          {"mean_score", run.test.mean_score},
          {"success_rate",
           {{"rate", run.success_rate.rate},
            {"low", run.success_rate.low},
            {"high", run.success_rate.high},
            {"method", method == RateMethod::kWilson ? "wilson" : "clopper_pearson"}}},
          {"letters", run.letters.empty() ? Json() : Json(run.letters)}};
}

Json PairsJson(const RunComparison& comparison) {
  Json pairs = Json::array();
  for (const RunPair& pair : comparison.pairs) {
    pairs.push_back({{"a", comparison.runs[pair.a].label},
                     {"b", comparison.runs[pair.b].label},
                     {"p_exact", pair.p_exact},
                     {"p_holm", pair.p_holm}});
  }
  return pairs;
}

Json BestOfJson(const RunComparison& comparison) {
  if (!comparison.best_of) return {};
  return {{"best", comparison.runs[comparison.best_of->best].label},
          {"n_seeds", comparison.best_of->n_seeds},
          {"optimism", comparison.best_of->optimism},
          {"bound", comparison.best_of->bound}};
}

Json CandidateJson(const CandidateComparison& candidate) {
  const PairCounts& counts = candidate.outcomes.counts;
  Json discordant = Json::array();
  for (const EpisodePair& pair : candidate.outcomes.pairs) {
    if (!pair.is_discordant()) continue;
    discordant.push_back({{"seed", pair.seed()},
                          {"success_a", pair.a.success},
                          {"success_b", pair.b.success},
                          {"score_a", pair.a.score},
                          {"score_b", pair.b.score},
                          {"video_a", VideoJson(pair.a)},
                          {"video_b", VideoJson(pair.b)}});
  }
  Json mismatches = Json::array();
  for (const Mismatch& mismatch : candidate.mismatches) {
    mismatches.push_back({{"field", mismatch.field}, {"a", mismatch.a}, {"b", mismatch.b}});
  }
  return {
      {"n_pairs", counts.n()},
      {"both_succeed", counts.both_succeed},
      {"only_a", counts.only_a},
      {"only_b", counts.only_b},
      {"neither", counts.neither},
      {"success_rate",
       {{"difference", candidate.success_rate.difference},
        {"low", candidate.success_rate.low},
        {"high", candidate.success_rate.high},
        {"method", "newcombe_paired"}}},
      // an infinite end, of a single pair, becomes null
      {"score",
       {{"difference", candidate.score.mean},
        {"low", candidate.score.low},
        {"high", candidate.score.high},
        {"std_dev", candidate.score.std_dev},
        {"method", "student_paired"}}},
      {"mcnemar",
       {{"p_exact", candidate.p_exact}, {"p_mid", candidate.p_mid}, {"p_holm", candidate.p_holm}}},
      {"power",
       {{"discordant_rate", candidate.discordant_rate},
        {"n_pairs", candidate.pairs_to_detect ? Json(*candidate.pairs_to_detect) : Json()}}},
      {"discordant", discordant},
      {"only_in_a", candidate.outcomes.only_in_a},
      {"only_in_b", candidate.outcomes.only_in_b},
      {"mismatches", mismatches}};
}

}  // namespace

std::string PowerText(const CandidateComparison& candidate, double difference) {
  const std::string wanted = fmt::format("a difference of {:.3g} points", 100.0 * difference);
  if (!candidate.pairs_to_detect) {
    return fmt::format("{} takes more than {} shared seeds to be seen", wanted, kMaxPairsToDetect);
  }
  const int n_more = *candidate.pairs_to_detect - candidate.outcomes.counts.n();
  return fmt::format(
      "{} takes about {} shared seeds to be seen, {} (80 % of the time, two-sided 5 %, {:.0f} % of "
      "the seeds discordant)",
      wanted, *candidate.pairs_to_detect,
      n_more > 0 ? fmt::format("{} more", n_more) : "which are there",
      100.0 * candidate.discordant_rate);
}

std::string ComparisonText(const RunComparison& comparison) {
  std::string text = RunTable(comparison);
  for (std::size_t i = 0; i < comparison.candidates.size(); ++i) {
    text += CandidateText(comparison, i);
  }
  if (!comparison.notes.empty()) text += "\n";
  for (const std::string& note : comparison.notes) text += "note: " + note + "\n";
  return text;
}

Json ToJson(const RunComparison& comparison) {
  Json runs = Json::array();
  for (const ComparedRun& run : comparison.runs) {
    runs.push_back(RunJson(run, comparison.options.rate_method));
  }
  Json candidates = Json::array();
  for (std::size_t i = 0; i < comparison.candidates.size(); ++i) {
    Json row = CandidateJson(comparison.candidates[i]);
    row["a"] = comparison.runs[0].label;
    row["b"] = comparison.runs[i + 1].label;
    candidates.push_back(row);
  }
  return {{"confidence", 0.95},
          {"correction", comparison.candidates.size() > 1 ? Json("holm") : Json()},
          {"difference_to_detect", comparison.options.difference},
          {"runs", runs},
          {"comparisons", candidates},
          {"all_pairs", PairsJson(comparison)},
          {"best_of", BestOfJson(comparison)},
          {"notes", comparison.notes}};
}

}  // namespace dp_bench
