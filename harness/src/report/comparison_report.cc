// Text, JSON and page of a RunComparison; for the page see comparison.html.mustache. Text from
// files is escaped by mustache's double braces.
#include "report/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <kainjow/mustache.hpp>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/output_file.h"
#include "dp_bench/error.h"
#include "report/film_poster.h"
#include "report/page_data.h"
#include "report/page_templates.h"

namespace dp_bench::report {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kListedSeeds = 20;  // of one kind, in the text

std::string RunTable(const compare::RunComparison& comparison) {
  const bool has_letters = !comparison.pairs.empty();
  std::string text;
  for (const compare::ComparedRun& run : comparison.runs) {
    text +=
        fmt::format("{}  {}  ({})\n", run.label, run.files.path.string(), run::RunTitle(run.files));
  }
  text += fmt::format("\n{:<4}{:>12}  {:<16}{:>10}{:>12}{:>8}{}\n", "run", "success rate",
                      "95 % interval", "episodes", "mean score", "failed",
                      has_letters ? "  letters" : "");
  for (const compare::ComparedRun& run : comparison.runs) {
    const compare::RateInterval& rate = run.success_rate;
    text += fmt::format("{:<4}{:>12.3f}  {:<16}{:>10}{:>12.3f}{:>8}{}{}\n", run.label, rate.rate,
                        fmt::format("{:.3f} to {:.3f}", rate.low, rate.high),
                        fmt::format("{}/{}", rate.n_success, rate.n), run.test.mean_score,
                        run.test.n_failed, has_letters ? "  " : "", run.letters);
  }
  if (comparison.options.rate_method != compare::RateMethod::kWilson) {
    text += fmt::format("intervals: {}\n", compare::MethodName(comparison.options.rate_method));
  }
  if (has_letters) {
    text +=
        "runs with a letter in common do not differ significantly (McNemar, or Fisher if unpaired; "
        "Holm's correction for all pairs, 5 %)\n";
  }
  return text;
}

std::string VideoText(const compare::ComparedRun& run, const run::EpisodeRecord& record) {
  return record.video.empty() ? "no video" : (run.files.path / record.video).string();
}

std::string DiscordantText(const compare::ComparedRun& a, const compare::ComparedRun& b,
                           const compare::PairedOutcomes& outcomes) {
  std::string text;
  for (const bool wins_a : {true, false}) {
    const std::string& winner = (wins_a ? a : b).label;
    std::size_t n = 0;
    for (const compare::EpisodePair& pair : outcomes.pairs) {
      if (!pair.is_discordant() || pair.a.success != wins_a || ++n > kListedSeeds) continue;
      text += fmt::format("  only {} succeeds  seed {}  {}  {}\n", winner, pair.seed(),
                          VideoText(a, pair.a), VideoText(b, pair.b));
    }
    if (n > kListedSeeds) {
      text += fmt::format("  only {} succeeds  {} more seeds, all of them with --json\n", winner,
                          n - kListedSeeds);
    }
  }
  return text;
}

std::string SeedList(const std::vector<std::uint64_t>& seeds) {
  const std::size_t n = std::min(seeds.size(), kListedSeeds);
  std::string text = fmt::format("{}", fmt::join(seeds.begin(), seeds.begin() + n, ", "));
  if (n < seeds.size()) text += fmt::format(" and {} more", seeds.size() - n);
  return text;
}

std::string MissingText(const compare::ComparedRun& a, const compare::ComparedRun& b,
                        const compare::PairedOutcomes& outcomes) {
  std::string text;
  if (!outcomes.only_in_a.empty()) {
    text += fmt::format("  {} did not run: {}\n", b.label, SeedList(outcomes.only_in_a));
  }
  if (!outcomes.only_in_b.empty()) {
    text += fmt::format("  {} did not run: {}\n", a.label, SeedList(outcomes.only_in_b));
  }
  return text;
}

// A spread of 0 in the sample says nothing about other seeds.
constexpr const char* kNoSpread = "the scores show no spread";

const char* TestName(const compare::CandidateComparison& candidate) {
  return candidate.is_paired() ? "McNemar" : "Fisher";
}

std::string CandidateText(const compare::RunComparison& comparison, std::size_t index) {
  const compare::ComparedRun& a = comparison.runs[0];
  const compare::ComparedRun& b = comparison.runs[index + 1];
  const compare::CandidateComparison& candidate = comparison.candidates[index];
  const compare::PairCounts& counts = candidate.outcomes.counts;
  const bool is_paired = candidate.is_paired();
  std::string text =
      is_paired ? fmt::format("\n{} against {}, {} shared seeds\n", b.label, a.label, counts.n())
                : fmt::format("\n{} against {}, unpaired: {}\n", b.label, a.label,
                              candidate.why_unpaired);
  for (const compare::Mismatch& mismatch : candidate.mismatches) {
    text += fmt::format("  NOT COMPARABLE: {} is {} in {}, {} in {}\n", mismatch.field, mismatch.a,
                        a.label, mismatch.b, b.label);
  }
  text += fmt::format("  success rate  {:+.3f}  95 % interval {:+.3f} to {:+.3f} (Newcombe, {})\n",
                      candidate.success_rate.difference, candidate.success_rate.low,
                      candidate.success_rate.high, is_paired ? "paired" : "unpaired");
  const compare::MeanInterval& score = candidate.score;
  text += fmt::format("  mean score    {:+.3f}  ", score.mean);
  text += score.low == score.high
              ? fmt::format("no interval: {}\n", kNoSpread)
              : fmt::format("95 % interval {:+.3f} to {:+.3f} ({})\n", score.low, score.high,
                            is_paired ? "Student, paired" : "Welch, unpaired");
  if (is_paired) {
    text += fmt::format("  seeds         both succeed {}, only {} {}, only {} {}, neither {}\n",
                        counts.both_succeed, a.label, counts.only_a, b.label, counts.only_b,
                        counts.neither);
  }
  text +=
      fmt::format("  {:<13} p = {:.4f} (exact, two-sided)", TestName(candidate), candidate.p_exact);
  if (comparison.candidates.size() > 1) {
    text += fmt::format("; {:.4f} with Holm's correction for {} candidates", candidate.p_holm,
                        comparison.candidates.size());
  }
  text += "\n  power         " + PowerText(candidate, comparison.options.difference) + "\n";
  return text + DiscordantText(a, b, candidate.outcomes) + MissingText(a, b, candidate.outcomes);
}

Json VideoJson(const run::EpisodeRecord& record) {
  return record.video.empty() ? Json() : Json(record.video);
}

Json RunJson(const compare::ComparedRun& run, compare::RateMethod method) {
  return {{"label", run.label},
          {"folder", run.files.path.string()},
          {"title", run::RunTitle(run.files)},
          {"n_episodes", run.test.n_episodes},
          {"n_success", run.test.n_success},
          {"n_failed", run.test.n_failed},
          {"mean_score", run.test.mean_score},
          {"success_rate",
           {{"rate", run.success_rate.rate},
            {"low", run.success_rate.low},
            {"high", run.success_rate.high},
            {"method", method == compare::RateMethod::kWilson ? "wilson" : "clopper_pearson"}}},
          {"letters", run.letters.empty() ? Json() : Json(run.letters)}};
}

Json PairsJson(const compare::RunComparison& comparison) {
  Json pairs = Json::array();
  for (const compare::RunPair& pair : comparison.pairs) {
    pairs.push_back({{"a", comparison.runs[pair.a].label},
                     {"b", comparison.runs[pair.b].label},
                     {"p_exact", pair.p_exact},
                     {"p_holm", pair.p_holm}});
  }
  return pairs;
}

Json BestOfJson(const compare::RunComparison& comparison) {
  if (!comparison.best_of) return {};
  return {{"best", comparison.runs[comparison.best_of->best].label},
          {"n_seeds", comparison.best_of->n_seeds},
          {"optimism", comparison.best_of->optimism},
          {"bound", comparison.best_of->bound}};
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
  Json mismatches = Json::array();
  for (const compare::Mismatch& mismatch : candidate.mismatches) {
    mismatches.push_back({{"field", mismatch.field}, {"a", mismatch.a}, {"b", mismatch.b}});
  }
  const bool is_paired = candidate.is_paired();
  return {{"why_unpaired", is_paired ? Json() : Json(candidate.why_unpaired)},
          {"n_pairs", counts.n()},
          {"both_succeed", counts.both_succeed},
          {"only_a", counts.only_a},
          {"only_b", counts.only_b},
          {"neither", counts.neither},
          {"success_rate",
           {{"difference", candidate.success_rate.difference},
            {"low", candidate.success_rate.low},
            {"high", candidate.success_rate.high},
            {"method", is_paired ? "newcombe_paired" : "newcombe"}}},
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
            {is_paired ? "n_pairs" : "n_episodes",
             candidate.n_to_detect ? Json(*candidate.n_to_detect) : Json()}}},
          {"discordant", discordant},
          {"only_in_a", candidate.outcomes.only_in_a},
          {"only_in_b", candidate.outcomes.only_in_b},
          {"mismatches", mismatches}};
}

namespace fs = std::filesystem;
using kainjow::mustache::data;

std::string Points(double fraction) { return fmt::format("{:+.1f}", 100.0 * fraction); }

// The position of a difference in [-1, 1] on a bar [%].
std::string PlaceOnBar(double difference) { return Percent((difference + 1.0) / 2.0); }

data RunRows(const compare::RunComparison& comparison) {
  data rows = List();
  for (const compare::ComparedRun& run : comparison.runs) {
    const compare::RateInterval& rate = run.success_rate;
    data row;
    row.set("label", run.label);
    row.set("name", fmt::format("{} ({})", run.files.path.string(), run::RunTitle(run.files)));
    row.set("rate", Percent(rate.rate));
    row.set("low", Percent(rate.low));
    row.set("high", Percent(rate.high));
    row.set("width", Percent(rate.high - rate.low));
    row.set("n_success", std::to_string(rate.n_success));
    row.set("n", std::to_string(rate.n));
    row.set("mean_score", fmt::format("{:.3f}", run.test.mean_score));
    row.set("n_failed", std::to_string(run.test.n_failed));
    row.set("letters", run.letters);
    rows.push_back(row);
  }
  return rows;
}

// One bar per seed, the highest difference first.
std::string DifferencesSvg(std::vector<double> differences) {
  constexpr double kWidth = 720.0;
  constexpr double kHeight = 120.0;
  constexpr double kLeft = 40.0;
  std::ranges::sort(differences, std::greater<>());
  const auto by_size = [](double a, double b) { return std::abs(a) < std::abs(b); };
  const double largest = std::max(1e-9, std::abs(std::ranges::max(differences, by_size)));
  const double step = (kWidth - kLeft) / static_cast<double>(differences.size());
  const double zero = kHeight / 2.0;
  std::string svg = fmt::format(
      "<svg class=\"differences\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "aria-label=\"score differences\">",
      kWidth, kHeight);
  for (std::size_t i = 0; i < differences.size(); ++i) {
    const double height = std::abs(differences[i]) / largest * (zero - 4.0);
    if (height == 0.0) continue;
    svg += fmt::format(
        "<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>",
        differences[i] > 0.0 ? "up" : "down", kLeft + step * static_cast<double>(i),
        differences[i] > 0.0 ? zero - height : zero, std::max(0.5, 0.8 * step), height);
  }
  svg += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", kLeft, kWidth, zero, zero);
  svg += fmt::format("<text x=\"0\" y=\"12\">{:+.2f}</text><text x=\"0\" y=\"{}\">0</text>",
                     largest, zero + 4.0);
  return svg + fmt::format("<text x=\"0\" y=\"{}\">{:+.2f}</text></svg>", kHeight - 4.0, -largest);
}

// One of the two videos of a seed. The page in `folder` links it if the file exists.
data SideData(const compare::ComparedRun& run, const run::EpisodeRecord& record,
              const fs::path& folder) {
  data side;
  side.set("label", run.label);
  side.set("score", record.failure_reason ? "failed" : fmt::format("{:.3f}", record.score));
  side.set("source", false);
  side.set("poster", false);
  const std::optional<fs::path> film = run.files.FilmOf(record);
  if (film && fs::is_regular_file(*film)) {
    side.set("source", LinkTo(fs::relative(*film, folder)));
    const std::string poster = FilmPoster(*film);
    if (!poster.empty()) side.set("poster", poster);
  }
  return side;
}

data DiscordantData(const compare::ComparedRun& a, const compare::ComparedRun& b,
                    const compare::PairedOutcomes& outcomes, const fs::path& folder) {
  data rows = List();
  for (const bool wins_a : {true, false}) {
    for (const compare::EpisodePair& pair : outcomes.pairs) {
      if (!pair.is_discordant() || pair.a.success != wins_a) continue;
      data row;
      row.set("seed", std::to_string(pair.seed()));
      row.set("winner", (wins_a ? a : b).label);
      data sides = List();
      sides.push_back(SideData(a, pair.a, folder));
      sides.push_back(SideData(b, pair.b, folder));
      row.set("sides", sides);
      rows.push_back(row);
    }
  }
  return rows;
}

data MismatchData(const compare::CandidateComparison& candidate) {
  data rows = List();
  for (const compare::Mismatch& mismatch : candidate.mismatches) {
    data row;
    row.set("field", mismatch.field);
    row.set("in_a", mismatch.a);
    row.set("in_b", mismatch.b);
    rows.push_back(row);
  }
  return rows;
}

data CandidateData(const compare::RunComparison& comparison, std::size_t index,
                   const fs::path& folder) {
  const compare::ComparedRun& a = comparison.runs[0];
  const compare::ComparedRun& b = comparison.runs[index + 1];
  const compare::CandidateComparison& candidate = comparison.candidates[index];
  const compare::PairCounts& counts = candidate.outcomes.counts;
  const compare::DifferenceInterval& rate = candidate.success_rate;
  data row;
  row.set("a", a.label);
  row.set("b", b.label);
  row.set("n", std::to_string(counts.n()));
  row.set("difference", Points(rate.difference));
  row.set("low", Points(rate.low));
  row.set("high", Points(rate.high));
  row.set("bar_low", PlaceOnBar(rate.low));
  row.set("bar_at", PlaceOnBar(rate.difference));
  row.set("bar_width", Percent((rate.high - rate.low) / 2.0));
  row.set("both", std::to_string(counts.both_succeed));
  row.set("only_a", std::to_string(counts.only_a));
  row.set("only_b", std::to_string(counts.only_b));
  row.set("neither", std::to_string(counts.neither));
  row.set("is_paired", candidate.is_paired());
  row.set("why_unpaired", candidate.is_paired() ? data(false) : data(candidate.why_unpaired));
  row.set("pairing", candidate.is_paired() ? "paired" : "unpaired");
  row.set("score_method", candidate.is_paired() ? "Student" : "Welch");
  row.set("test", TestName(candidate));
  row.set("p", fmt::format("{:.4f}", candidate.p_exact));
  row.set("p_holm", false);
  if (comparison.candidates.size() > 1) {
    row.set("p_holm", fmt::format("{:.4f}", candidate.p_holm));
  }
  row.set("score", fmt::format("{:+.3f}", candidate.score.mean));
  const bool has_spread = candidate.score.low < candidate.score.high;
  row.set("no_spread", has_spread ? data(false) : data(kNoSpread));
  row.set("score_low", fmt::format("{:+.3f}", candidate.score.low));
  row.set("score_high", fmt::format("{:+.3f}", candidate.score.high));
  if (candidate.is_paired()) {
    row.set("differences", DifferencesSvg(compare::ScoreDifferences(candidate.outcomes)));
  }
  row.set("power", PowerText(candidate, comparison.options.difference));
  row.set("mismatches", MismatchData(candidate));
  const data discordant = DiscordantData(a, b, candidate.outcomes, folder);
  row.set("discordant", discordant);
  row.set("has_discordant", !discordant.is_empty_list());
  return row;
}

std::string TitleOf(const compare::RunComparison& comparison) {
  std::string title;
  for (std::size_t i = 1; i < comparison.runs.size(); ++i) {
    title += (title.empty() ? "" : ", ") + comparison.runs[i].label;
  }
  const std::string task = run::TaskTitle(comparison.runs[0].files);
  return title + " against A" + (task.empty() ? "" : " on " + task);
}

}  // namespace

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

std::string ComparisonText(const compare::RunComparison& comparison) {
  std::string text = RunTable(comparison);
  for (std::size_t i = 0; i < comparison.candidates.size(); ++i) {
    text += CandidateText(comparison, i);
  }
  if (!comparison.notes.empty()) text += "\n";
  for (const std::string& note : comparison.notes) text += "note: " + note + "\n";
  return text;
}

Json ToJson(const compare::RunComparison& comparison) {
  Json runs = Json::array();
  for (const compare::ComparedRun& run : comparison.runs) {
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

void WriteComparisonReport(const compare::RunComparison& comparison, const fs::path& file) {
  const fs::path folder = fs::absolute(file).parent_path();
  data page;
  page.set("style", kReportStyle);
  page.set("title", TitleOf(comparison));
  page.set("method", std::string(compare::MethodName(comparison.options.rate_method)));
  page.set("has_letters", !comparison.pairs.empty());
  page.set("runs", RunRows(comparison));
  data candidates = List();
  for (std::size_t i = 0; i < comparison.candidates.size(); ++i) {
    candidates.push_back(CandidateData(comparison, i, folder));
  }
  page.set("candidates", candidates);
  data notes = List();
  for (const std::string& note : comparison.notes) {
    data item;
    item.set("text", note);
    notes.push_back(item);
  }
  page.set("notes", notes);
  page.set("has_notes", !comparison.notes.empty());
  core::WriteOutput(file, RenderPage(kComparisonTemplate, page));
}

}  // namespace dp_bench::report
