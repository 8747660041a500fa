// Builds the report once as JSON; Markdown and the page are templates.
#include "diagnose/diagnosis_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/output_file.h"
#include "report/render.h"

namespace dp_bench::diagnose {
namespace {

using Json = nlohmann::json;

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

Json TableJson(const std::vector<std::string>& head,
               const std::vector<std::vector<std::string>>& rows) {
  Json lines = Json::array();
  for (const std::vector<std::string>& row : rows) lines.push_back({{"cells", row}});
  return {{"head", head}, {"rows", lines}};
}

// The findings and tables of one subject: a hypothesis A to F, which can be confirmed or rejected,
// or another part of the diagnosis.
Json GroupJson(const Json& group, const Diagnosis& diagnosis) {
  const auto prefix = group["prefix"].get<std::string>();
  const bool is_hypothesis = prefix.size() == 1;
  Json findings = Json::array();
  bool has_problem = false;
  bool has_note = false;
  std::size_t n_open = 0;
  for (const Finding& finding : diagnosis.findings) {
    if (!BelongsTo(finding, prefix)) continue;
    const bool is_note = IsConfirmed(finding) && !finding.is_problem();
    findings.push_back({{"id", finding.id},
                        {"verdict", is_note ? "NOTE" : Name(finding.verdict)},
                        {"claim", finding.claim},
                        {"evidence", finding.evidence}});
    has_problem = has_problem || finding.is_problem();
    has_note = has_note || is_note;
    n_open += finding.verdict == Judgement::kInconclusive ? 1 : 0;
  }
  Json tables = Json::array();
  for (const EvidenceTable& table : diagnosis.tables) {
    if (table.hypothesis == prefix) tables.push_back(TableJson(table.head, table.rows));
  }
  const std::size_t n = findings.size();
  const bool is_healthy = !has_problem && !has_note && 2 * n_open < n;
  const std::string open = n == 0        ? "Nothing could be checked."
                           : n_open == 0 ? ""
                                         : fmt::format("{} of {} checks are open.", n_open, n);
  std::string conclusion = open;
  const char* verdict = "INCONCLUSIVE";
  if (has_problem) {
    conclusion = "There is a problem; see the advice.";
    verdict = is_hypothesis ? "CONFIRMED" : "PROBLEM";
  } else if (has_note) {
    conclusion = "No problem, but a point to watch.";
    verdict = "NOTE";
  } else if (is_healthy) {
    conclusion = group["healthy"].get<std::string>() + (n_open > 0 ? ' ' + open : "");
    verdict = is_hypothesis ? "REJECTED" : "NO FAULT";
  }
  return {{"title", group["title"]},  {"verdict", verdict},       {"is_problem", has_problem},
          {"is_healthy", is_healthy}, {"conclusion", conclusion}, {"findings", findings},
          {"tables", tables}};
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
    const Finding* headline = Find(diagnosis.findings, id);
    if (headline == nullptr || headline->verdict != Judgement::kRejected) continue;
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

// At most ten points of each curve of a plot, evenly chosen; Markdown has no plots.
Json CurveTables(const report::LinePlot& plot) {
  Json tables = Json::array();
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
    tables.push_back(TableJson(head, {row}));
  }
  return tables;
}

Json ReportJson(const Diagnosis& diagnosis, const std::string& title) {
  Json page = {{"title", title},
               {"summary", SummaryOf(diagnosis)},
               {"key_findings", KeyFindings(diagnosis)},
               {"to_watch", ToWatch(diagnosis)},
               {"advice", AdviceOf(diagnosis)},
               {"hypotheses", Json::array()},
               {"others", Json::array()},
               {"plots", Json::array()},
               {"curves", Json::array()}};
  int n_rejected = 0;
  for (const Json& group : HypothesisTexts()["groups"]) {
    Json entry = GroupJson(group, diagnosis);
    if (group["prefix"].get_ref<const std::string&>().size() == 1) {
      n_rejected += entry["is_healthy"].get<bool>() ? 1 : 0;
      page["hypotheses"].push_back(std::move(entry));
    } else if (!entry["findings"].empty()) {
      page["others"].push_back(std::move(entry));
    }
  }
  page["conclusion"] = fmt::format("{} of the six hypotheses are rejected. {}", n_rejected,
                                   HasProblems(diagnosis.findings)
                                       ? "Repair the problems above, then diagnose again."
                                       : "The examined parts work as they should.");
  for (const report::LinePlot& plot : diagnosis.plots) {
    report::AppendPlot(plot, &page["plots"]);
    if (Json tables = CurveTables(plot); !tables.empty()) {
      page["curves"].push_back({{"title", plot.title}, {"tables", std::move(tables)}});
    }
  }
  return page;
}

}  // namespace

std::string ToMarkdown(const Diagnosis& diagnosis, const std::string& title) {
  return report::Render("diagnosis.md", ReportJson(diagnosis, title));
}

void WriteDiagnosisPage(const Diagnosis& diagnosis, const std::string& title,
                        const std::filesystem::path& file) {
  core::WriteOutput(file, report::Render("diagnosis.html", ReportJson(diagnosis, title)));
}

}  // namespace dp_bench::diagnose
