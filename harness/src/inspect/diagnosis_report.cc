// Builds the report once as data; Markdown and the page only format it.
#include "inspect/diagnosis_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <kainjow/mustache.hpp>
#include <string_view>
#include <utility>

#include "core/output_file.h"
#include "dp_bench/error.h"
#include "report/render.h"

namespace dp_bench::inspect {
namespace {

using kainjow::mustache::data;

/// Findings of one subject: a hypothesis of a training, or another part of the diagnosis.
struct ReportGroup {
  std::string title;
  std::string verdict = {};  // CONFIRMED, NOTE, REJECTED or INCONCLUSIVE; others: NO FAULT
  bool is_problem = false;
  bool is_healthy = false;
  std::string conclusion = {};  // a sentence
  std::vector<const Finding*> findings = {};
  std::vector<const EvidenceTable*> tables = {};
};

/// The parts of a report, in their order.
struct ReportText {
  std::string summary;
  std::vector<ReportGroup> hypotheses = {};  // A to F
  std::vector<ReportGroup> others = {};
  std::vector<std::string> key_findings;
  std::vector<std::string> to_watch;
  std::vector<std::string> advice;
  std::string conclusion = {};
};

/// The subject of a group: ids begin with the prefix and a dot.
struct GroupTopic {
  const char* prefix;
  const char* title;
  const char* healthy;  // the conclusion if most hypotheses are rejected and none is confirmed
};

constexpr std::array kHypotheses = {
    GroupTopic{"A", "Hypothesis A: the input data are out of range",
               "The input data are in range."},
    GroupTopic{"B", "Hypothesis B: the timesteps are not uniform",
               "The timesteps are drawn uniformly."},
    GroupTopic{"C", "Hypothesis C: the forward process is wrong",
               "The forward process follows the closed form."},
    GroupTopic{"D", "Hypothesis D: the network's predictions are wrong",
               "The predictions have the range of their targets."},
    GroupTopic{"E", "Hypothesis E: the loss is unstable", "The loss is stable and falls."},
    GroupTopic{"F", "Hypothesis F: the constants of the process are wrong",
               "The policy uses the constants of its config."},
};

constexpr std::array kOtherTopics = {
    GroupTopic{"data", "Demonstrations", "The demonstrations have no fault."},
    GroupTopic{"env", "Env", "Data and env fit together."},
    GroupTopic{"normalizer", "Normalizer", "The normalizer fits the data."},
    GroupTopic{"settings", "Settings", "The settings fit together."},
    GroupTopic{"learning", "First updates", "The network learns a batch."},
    GroupTopic{"weights", "Weights", "The weights are sound."},
    GroupTopic{"sampling", "Sampling", "Sampling gives the recorded actions."},
    GroupTopic{"rollout", "Rollouts", "The rollouts stay within the training data."},
};

bool IsConfirmed(const Finding& finding) { return finding.verdict == Judgement::kConfirmed; }

bool BelongsTo(const Finding& finding, std::string_view prefix) {
  return finding.id.starts_with(std::string(prefix) + ".");
}

std::string WithKey(const Finding& finding) {
  return finding.config_key.empty() ? finding.advice
                                    : fmt::format("{} [{}]", finding.advice, finding.config_key);
}

std::string Capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string SentenceOf(const Finding& finding) {
  return fmt::format("{} ({}): {}.", Capitalized(finding.claim), finding.id, finding.evidence);
}

void Conclude(const GroupTopic& topic, ReportGroup* group) {
  const auto& findings = group->findings;
  const auto any = [&](auto condition) { return std::ranges::any_of(findings, condition); };
  if (any([](const Finding* f) { return f->is_problem(); })) {
    group->verdict = "CONFIRMED";
    group->is_problem = true;
    group->conclusion = "There is a problem; see the advice.";
  } else if (any([](const Finding* f) { return IsConfirmed(*f); })) {
    group->verdict = "NOTE";
    group->conclusion = "No problem, but a point to watch.";
  } else {
    const auto n_open = std::ranges::count(findings, Judgement::kInconclusive, &Finding::verdict);
    const std::ptrdiff_t n = std::ssize(findings);
    group->is_healthy = 2 * n_open < n;
    group->verdict = group->is_healthy ? "REJECTED" : "INCONCLUSIVE";
    const std::string open = n == 0        ? "Nothing could be checked."
                             : n_open == 0 ? ""
                                           : fmt::format("{} of {} checks are open.", n_open, n);
    group->conclusion = group->is_healthy ? topic.healthy : open;
    if (group->is_healthy && n_open > 0) group->conclusion += ' ' + open;
  }
}

ReportGroup GroupOf(const GroupTopic& topic, const Diagnosis& diagnosis) {
  ReportGroup group = {.title = topic.title};
  for (const Finding& finding : diagnosis.findings) {
    if (BelongsTo(finding, topic.prefix)) group.findings.push_back(&finding);
  }
  for (const EvidenceTable& table : diagnosis.tables) {
    if (table.hypothesis == topic.prefix) group.tables.push_back(&table);
  }
  Conclude(topic, &group);
  return group;
}

std::string SummaryOf(const Diagnosis& diagnosis) {
  std::vector<std::string> problems;
  for (const Finding& finding : diagnosis.findings) {
    if (finding.is_problem()) problems.push_back(finding.id);
  }
  const std::size_t n = diagnosis.findings.size();
  if (!problems.empty()) {
    return fmt::format("{} checks found {} problem{}: {}.", n, problems.size(),
                       problems.size() == 1 ? "" : "s", fmt::join(problems, ", "));
  }
  const std::string course =
      diagnosis.loss ? fmt::format(" The loss fell by {:.2f} %.", 100.0 * diagnosis.loss->fall())
                     : "";
  return fmt::format("{} checks found no problem.{}", n, course);
}

std::vector<std::string> KeyFindings(const Diagnosis& diagnosis) {
  std::vector<std::string> found;
  for (const Finding& finding : diagnosis.findings) {
    if (finding.is_problem()) found.push_back(SentenceOf(finding));
  }
  found.insert(found.end(), diagnosis.notes.begin(), diagnosis.notes.end());
  // numbers that are worth knowing also when nothing is wrong
  constexpr std::array kHeadlines = {
      std::pair{"D.predicted_x0", "Predicted x_0 of the checkpoint"},
      std::pair{"weights.untrained", "Prediction of the network"},
      std::pair{"sampling.no_better_than_mean", "Sampled actions beside the recorded ones"}};
  for (const auto& [id, subject] : kHeadlines) {
    const auto headline = std::ranges::find(diagnosis.findings, id, &Finding::id);
    if (headline == diagnosis.findings.end() || headline->verdict != Judgement::kRejected) continue;
    found.push_back(fmt::format("{}: {}.", subject, headline->evidence));
  }
  return found;
}

std::vector<std::string> ToWatch(const Diagnosis& diagnosis) {
  std::vector<std::string> points;
  for (const Finding& finding : diagnosis.findings) {
    if (IsConfirmed(finding) && !finding.is_problem()) points.push_back(SentenceOf(finding));
  }
  for (const Finding& finding : diagnosis.findings) {
    if (finding.verdict != Judgement::kInconclusive) continue;
    points.push_back(
        fmt::format("Not decided: {} ({}): {}.", finding.claim, finding.id, finding.evidence));
  }
  return points;
}

std::vector<std::string> AdviceOf(const Diagnosis& diagnosis) {
  std::vector<std::string> advice;
  for (const bool is_problem : {true, false}) {
    for (const Finding& finding : diagnosis.findings) {
      if (!IsConfirmed(finding) || finding.is_problem() != is_problem || finding.advice.empty()) {
        continue;
      }
      advice.push_back(fmt::format("{}: {}.", finding.id, WithKey(finding)));
    }
  }
  if (!HasProblems(diagnosis.findings)) {
    advice.emplace_back(diagnosis.loss && !diagnosis.loss->plateau
                            ? "Go on with the training: the loss still changes."
                            : "Nothing has to be repaired.");
  }
  advice.emplace_back(
      "Watch val_loss, the success rate, and train_predicted_x0_std beside train_x0_std in the "
      "log.");
  return advice;
}

ReportText TextOf(const Diagnosis& diagnosis) {
  ReportText text = {.summary = SummaryOf(diagnosis),
                     .key_findings = KeyFindings(diagnosis),
                     .to_watch = ToWatch(diagnosis),
                     .advice = AdviceOf(diagnosis)};
  for (const GroupTopic& topic : kHypotheses) text.hypotheses.push_back(GroupOf(topic, diagnosis));
  for (const GroupTopic& topic : kOtherTopics) {
    ReportGroup group = GroupOf(topic, diagnosis);
    if (group.findings.empty()) continue;
    // these are subjects, not hypotheses that can be confirmed or rejected
    if (group.is_problem) group.verdict = "PROBLEM";
    if (group.is_healthy) group.verdict = "NO FAULT";
    text.others.push_back(std::move(group));
  }
  const auto n_rejected = std::ranges::count_if(text.hypotheses, &ReportGroup::is_healthy);
  text.conclusion = fmt::format("{} of the six hypotheses are rejected. {}", n_rejected,
                                HasProblems(diagnosis.findings)
                                    ? "Repair the problems above, then diagnose again."
                                    : "The examined parts work as they should.");
  return text;
}

// Keeps a text inside its cell or line.
std::string EscapeMarkdown(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += ' ';
      continue;
    }
    if (std::string_view("|<>*_`\\[]").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string MarkdownRow(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += fmt::format(" {} |", EscapeMarkdown(cell));
  return row + "\n";
}

std::string MarkdownTable(const std::vector<std::string>& head,
                          const std::vector<std::vector<std::string>>& rows) {
  std::string text = MarkdownRow(head) + "|";
  for (std::size_t i = 0; i < head.size(); ++i) text += "---|";
  text += "\n";
  for (const std::vector<std::string>& row : rows) text += MarkdownRow(row);
  return text + "\n";
}

const char* VerdictOf(const Finding& finding) {
  switch (finding.verdict) {
    case Judgement::kConfirmed:
      return finding.is_problem() ? "CONFIRMED" : "NOTE";
    case Judgement::kRejected:
      return "REJECTED";
    case Judgement::kInconclusive:
      break;
  }
  return "INCONCLUSIVE";
}

std::string MarkdownGroup(const ReportGroup& group) {
  std::string text = fmt::format("### {}: {}\n\n", group.title, group.verdict);
  for (const EvidenceTable* table : group.tables) text += MarkdownTable(table->head, table->rows);
  std::vector<std::vector<std::string>> rows;
  for (const Finding* finding : group.findings) {
    rows.push_back({finding->id, VerdictOf(*finding), finding->claim, finding->evidence});
  }
  if (!rows.empty()) text += MarkdownTable({"check", "verdict", "hypothesis", "evidence"}, rows);
  return text + group.conclusion + "\n\n";
}

std::string MarkdownList(const char* title, const std::vector<std::string>& entries) {
  std::string text = fmt::format("## {}\n\n", title);
  for (const std::string& entry : entries) text += fmt::format("- {}\n", EscapeMarkdown(entry));
  return text + (entries.empty() ? "None.\n\n" : "\n");
}

// At most ten points of a plot, evenly chosen, as a table; Markdown has no plots.
std::string MarkdownPlot(const report::LinePlot& plot) {
  std::string text;
  for (const report::PlotSeries& series : plot.series) {
    const std::size_t n = std::min<std::size_t>(10, series.points.size());
    if (n == 0) continue;
    std::vector<std::string> head = {plot.x_label};
    std::vector<std::string> row = {series.label};
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t at = n == 1 ? 0 : i * (series.points.size() - 1) / (n - 1);
      const run::CurvePoint& point = series.points[at];
      head.push_back(fmt::format("{:g}", point.epoch));
      row.push_back(std::isfinite(point.value) ? fmt::format("{:.3g}", point.value) : "–");
    }
    text += MarkdownTable(head, {row});
  }
  return text.empty() ? "" : fmt::format("### {}\n\n{}", EscapeMarkdown(plot.title), text);
}

data Lines(const std::vector<std::string>& lines) {
  data list = report::List();
  for (const std::string& line : lines) {
    data entry;
    entry.set("text", line);
    list.push_back(entry);
  }
  return list;
}

data TableData(const EvidenceTable& table) {
  data rows = report::List();
  for (const std::vector<std::string>& cells : table.rows) {
    data row;
    row.set("cells", Lines(cells));
    rows.push_back(row);
  }
  data result;
  result.set("head", Lines(table.head));
  result.set("rows", rows);
  return result;
}

data GroupsData(const std::vector<ReportGroup>& groups) {
  data list = report::List();
  for (const ReportGroup& group : groups) {
    data findings = report::List();
    for (const Finding* finding : group.findings) {
      data row;
      row.set("id", finding->id);
      row.set("verdict", VerdictOf(*finding));
      row.set("claim", finding->claim);
      row.set("evidence", finding->evidence);
      findings.push_back(row);
    }
    data tables = report::List();
    for (const EvidenceTable* table : group.tables) tables.push_back(TableData(*table));
    data entry;
    entry.set("title", group.title);
    entry.set("verdict", group.verdict);
    entry.set("is_problem", group.is_problem);
    entry.set("is_healthy", group.is_healthy);
    entry.set("conclusion", group.conclusion);
    entry.set("has_findings", !group.findings.empty());
    entry.set("findings", findings);
    entry.set("tables", tables);
    list.push_back(entry);
  }
  return list;
}

}  // namespace

std::string ToMarkdown(const Diagnosis& diagnosis, const std::string& title) {
  const ReportText text = TextOf(diagnosis);
  std::string page = fmt::format("# Diagnosis: {}\n\n## Summary\n\n{}\n\n## Hypotheses\n\n",
                                 EscapeMarkdown(title), EscapeMarkdown(text.summary));
  for (const ReportGroup& group : text.hypotheses) page += MarkdownGroup(group);
  if (!text.others.empty()) page += "## Other checks\n\n";
  for (const ReportGroup& group : text.others) page += MarkdownGroup(group);
  std::string plots;
  for (const report::LinePlot& plot : diagnosis.plots) plots += MarkdownPlot(plot);
  if (!plots.empty()) page += "## Curves\n\n" + plots;
  page += MarkdownList("Key findings", text.key_findings);
  page += MarkdownList("Points to watch", text.to_watch);
  page += MarkdownList("Advice", text.advice);
  return page + fmt::format("## Conclusion\n\n{}\n", text.conclusion);
}

void WriteDiagnosisPage(const Diagnosis& diagnosis, const std::string& title,
                        const std::filesystem::path& file) {
  const ReportText text = TextOf(diagnosis);
  data plots = report::List();
  for (const report::LinePlot& plot : diagnosis.plots) report::AppendPlot(plot, &plots);
  data page;
  page.set("title", title);
  page.set("summary", text.summary);
  page.set("hypotheses", GroupsData(text.hypotheses));
  page.set("has_others", !text.others.empty());
  page.set("others", GroupsData(text.others));
  page.set("has_plots", !plots.is_empty_list());
  page.set("plots", plots);
  page.set("key_findings", Lines(text.key_findings));
  page.set("to_watch", Lines(text.to_watch));
  page.set("advice", Lines(text.advice));
  page.set("conclusion", text.conclusion);
  core::WriteOutput(file, report::RenderPage("diagnosis.html", page));
}

}  // namespace dp_bench::inspect
