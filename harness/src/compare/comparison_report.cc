// The page of a RunComparison; see comparison.html.mustache. Whatever comes from files is escaped
// by mustache's double braces.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <kainjow/mustache.hpp>
#include <string_view>

#include "compare/comparison_template.h"
#include "compare/run_comparison.h"
#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "report/link.h"
#include "report/page_data.h"
#include "report/report_template.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;
using kainjow::mustache::data;

std::string Points(double fraction) { return fmt::format("{:+.1f}", 100.0 * fraction); }

// Where a difference in [-1, 1] lies on a bar [%].
std::string PlaceOnBar(double difference) { return Percent((difference + 1.0) / 2.0); }

data RunRows(const RunComparison& comparison) {
  data rows = List();
  for (const ComparedRun& run : comparison.runs) {
    const RateInterval& rate = run.success_rate;
    data row;
    row.set("label", run.label);
    row.set("name", fmt::format("{} ({})", run.files.path.string(), RunTitle(run.files)));
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

// One of the two videos of a seed, as the page in `folder` links it where it is there.
data SideData(const ComparedRun& run, const EpisodeRecord& record, const fs::path& folder) {
  data side;
  side.set("label", run.label);
  side.set("score", record.failure_reason ? "failed" : fmt::format("{:.3f}", record.score));
  side.set("source", false);
  const fs::path video = run.files.path / record.video;
  if (StaysBelow(record.video) && fs::is_regular_file(video)) {
    side.set("source", LinkTo(fs::relative(video, folder)));
  }
  return side;
}

data DiscordantData(const ComparedRun& a, const ComparedRun& b, const PairedOutcomes& outcomes,
                    const fs::path& folder) {
  data rows = List();
  for (const bool wins_a : {true, false}) {
    for (const EpisodePair& pair : outcomes.pairs) {
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

data MismatchData(const CandidateComparison& candidate) {
  data rows = List();
  for (const Mismatch& mismatch : candidate.mismatches) {
    data row;
    row.set("field", mismatch.field);
    row.set("in_a", mismatch.a);
    row.set("in_b", mismatch.b);
    rows.push_back(row);
  }
  return rows;
}

data CandidateData(const RunComparison& comparison, std::size_t index, const fs::path& folder) {
  const ComparedRun& a = comparison.runs[0];
  const ComparedRun& b = comparison.runs[index + 1];
  const CandidateComparison& candidate = comparison.candidates[index];
  const PairCounts& counts = candidate.outcomes.counts;
  const DifferenceInterval& rate = candidate.success_rate;
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
  row.set("p", fmt::format("{:.4f}", candidate.p_exact));
  row.set("p_holm", false);
  if (comparison.candidates.size() > 1) {
    row.set("p_holm", fmt::format("{:.4f}", candidate.p_holm));
  }
  row.set("score", fmt::format("{:+.3f}", candidate.score.mean));
  row.set("score_low", fmt::format("{:+.3f}", candidate.score.low));
  row.set("score_high", fmt::format("{:+.3f}", candidate.score.high));
  row.set("differences", DifferencesSvg(ScoreDifferences(candidate.outcomes)));
  row.set("power", PowerText(candidate, comparison.options.difference));
  row.set("mismatches", MismatchData(candidate));
  const data discordant = DiscordantData(a, b, candidate.outcomes, folder);
  row.set("discordant", discordant);
  row.set("has_discordant", !discordant.is_empty_list());
  return row;
}

std::string TitleOf(const RunComparison& comparison) {
  std::string title;
  for (std::size_t i = 1; i < comparison.runs.size(); ++i) {
    title += (title.empty() ? "" : ", ") + comparison.runs[i].label;
  }
  const std::string task = TaskTitle(comparison.runs[0].files);
  return title + " against A" + (task.empty() ? "" : " on " + task);
}

}  // namespace

void WriteComparisonReport(const RunComparison& comparison, const fs::path& file) {
  const fs::path folder = fs::absolute(file).parent_path();
  data page;
  page.set("style", kReportStyle);
  page.set("title", TitleOf(comparison));
  page.set("method", std::string(MethodName(comparison.options.rate_method)));
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

  kainjow::mustache::mustache page_template(kComparisonTemplate);
  DPB_ASSERT(page_template.is_valid());
  WriteFileAtomically(file, std::string_view(page_template.render(page)));
}

}  // namespace dp_bench
