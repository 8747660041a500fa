#include "report/gate_output.h"

#include <fmt/format.h>

#include <cmath>

#include "core/console.h"
#include "report/line_plot.h"

namespace dp_bench::report {
namespace {

// Escapes text so that Markdown shows it unchanged, on one line, in paragraphs and tables. The
// characters are from CommonMark 2.4 (backslash escapes), plus '|', which ends a cell of GitHub's
// tables.
std::string EscapeMarkdown(std::string_view text) {
  constexpr std::string_view kSpecial = "\\`*_{}[]#|~";
  std::string escaped;
  for (const char c : core::Printable(text)) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else if (c == '\n' || c == '\t') {
      escaped += ' ';
    } else {
      if (kSpecial.find(c) != std::string_view::npos) escaped += '\\';
      escaped += c;
    }
  }
  return escaped;
}

bool HasVerdict(const compare::GateResult& result) {
  return result.status != compare::GateStatus::kNotComparable &&
         result.status != compare::GateStatus::kInfra;
}

std::string Evidence(double log_evidence, double error_rate) {
  return fmt::format("{:.3g} of {:.3g}", std::exp(log_evidence), 1.0 / error_rate);
}

std::string CountsText(const compare::OutcomeCounts& counts) {
  return fmt::format("{}: {} lost, {} gained, {} same", counts.n_pairs(), counts.n_lost,
                     counts.n_gained, counts.n_same);
}

struct Row {
  const char* name;
  std::string value;
};

std::vector<Row> Rows(const compare::GateResult& result) {
  std::vector<Row> rows;
  for (const compare::Mismatch& mismatch : result.mismatches) {
    rows.push_back({"differs", fmt::format("{}: {}, in the candidate {}", mismatch.field,
                                           mismatch.a, mismatch.b)});
  }
  if (!HasVerdict(result)) return rows;
  const compare::SequentialTestConfig& config = result.test.config();
  const auto rate = [](const compare::RateInterval& interval) {
    return fmt::format("{:.3f} ({:.3f} to {:.3f}), {}/{}", interval.rate, interval.low,
                       interval.high, interval.n_success, interval.n);
  };
  rows.push_back({"baseline", rate(result.baseline)});
  rows.push_back({"candidate", rate(result.candidate)});
  rows.push_back({"seeds", CountsText(result.test.counts())});
  rows.push_back({"drop", fmt::format("{:+.3f} ({:+.3f} to {:+.3f} at every look)",
                                      result.drop.drop, result.drop.low, result.drop.high)});
  if (!result.test.looks().empty()) {
    const compare::Look& look = result.test.looks().back();
    rows.push_back({"evidence of a drop", Evidence(look.log_fail_evidence, config.alpha)});
    rows.push_back({"evidence of no drop",
                    fmt::format("{}, for a margin of {:.3g}",
                                Evidence(look.log_pass_evidence, config.beta), config.margin)});
  }
  rows.push_back({"correlation", fmt::format("{:.2f} over the seeds", result.rho)});
  return rows;
}

const char* JUnitElement(compare::GateStatus status) {
  switch (status) {
    case compare::GateStatus::kPass:
      return nullptr;
    case compare::GateStatus::kFail:
      return "failure";
    case compare::GateStatus::kInconclusive:
      return "skipped";
    case compare::GateStatus::kNotComparable:
    case compare::GateStatus::kInfra:
      break;
  }
  return "error";
}

std::string Sentence(compare::GateStatus status, const std::string& reason) {
  return fmt::format("{}: {}", compare::StatusName(status), reason);
}

std::string TaskText(const compare::GateResult& result) {
  std::string text = Sentence(result.status, result.reason) + "\n";
  if (!result.note.empty()) text += fmt::format("  {}\n", result.note);
  for (const Row& row : Rows(result)) text += fmt::format("  {:<19} {}\n", row.name, row.value);
  return text;
}

// "evidence of a drop over all 3 tasks: 12.3 of 100"
std::string JointText(const compare::GateReport& report) {
  return fmt::format("evidence of a drop over all {} tasks: {}", report.tasks.size(),
                     Evidence(report.log_fail_evidence, report.config.alpha));
}

// XML forbids control characters, even escaped ones.
std::string XmlText(const std::string& text) { return EscapeHtml(core::Printable(text)); }

std::string JUnitCase(const std::string& name, compare::GateStatus status,
                      const std::string& reason, const std::string& output) {
  std::string xml =
      fmt::format("  <testcase classname=\"success_rate\" name=\"{}\">\n", XmlText(name));
  if (const char* element = JUnitElement(status)) {
    xml += fmt::format("    <{} message=\"{}\"/>\n", element, XmlText(Sentence(status, reason)));
  }
  return xml + fmt::format("    <system-out>{}</system-out>\n  </testcase>\n", XmlText(output));
}

std::string MarkdownTable(const compare::GateReport& report) {
  std::string text;
  if (report.tasks.size() == 1) {
    for (const Row& row : Rows(report.tasks[0])) {
      text += fmt::format("| {} | {} |\n", row.name, EscapeMarkdown(row.value));
    }
    return text.empty() ? "" : "\n| | |\n|---|---|\n" + text;
  }
  text = "\n| task | verdict | seeds | drop | evidence of a drop |\n|---|---|---|---|---|\n";
  for (const compare::GateResult& task : report.tasks) {
    const std::string drop =
        fmt::format("{:+.3f} ({:+.3f} to {:+.3f})", task.drop.drop, task.drop.low, task.drop.high);
    text += HasVerdict(task)
                ? fmt::format("| {} | {} | {} | {} | {} |\n", EscapeMarkdown(task.task),
                              compare::StatusName(task.status), CountsText(task.test.counts()),
                              drop, Evidence(task.log_fail_evidence(), task.test.config().alpha))
                : fmt::format("| {} | {}: {} | | | |\n", EscapeMarkdown(task.task),
                              compare::StatusName(task.status), EscapeMarkdown(task.reason));
  }
  return text + "\n" + JointText(report) + "\n";
}

}  // namespace

std::string GateProgressLine(const compare::GateResult& result) {
  if (!HasVerdict(result) || result.test.looks().empty()) return "";
  const compare::Look& look = result.test.looks().back();
  const compare::SequentialTestConfig& config = result.test.config();
  return fmt::format(
      "{} after {}, of at most {} seeds; evidence of a drop {}, of no drop {}; drop "
      "{:+.3f} ({:+.3f} to {:+.3f})",
      compare::StatusName(result.status), CountsText(result.test.counts()), config.max_pairs,
      Evidence(look.log_fail_evidence, config.alpha), Evidence(look.log_pass_evidence, config.beta),
      result.drop.drop, result.drop.low, result.drop.high);
}

std::string GateText(const compare::GateReport& report) {
  if (report.tasks.size() == 1) return TaskText(report.tasks[0]);
  std::string text = Sentence(report.status, report.reason) + "\n  " + JointText(report) + "\n";
  for (const compare::GateResult& task : report.tasks) {
    text += fmt::format("\n{}\n{}", task.task, TaskText(task));
  }
  return text;
}

std::string GateJUnit(const compare::GateReport& report) {
  const bool has_joint_case = report.tasks.size() > 1;
  std::string cases;
  for (const compare::GateResult& task : report.tasks) {
    cases += JUnitCase(has_joint_case ? task.task : task.title, task.status, task.reason,
                       TaskText(task));
  }
  if (has_joint_case) {
    cases += JUnitCase("all tasks", report.status, report.reason, JointText(report));
  }
  const auto count = [&](std::string_view name) {
    const auto is_counted = [name](compare::GateStatus status) {
      const char* element = JUnitElement(status);
      return element != nullptr && element == name;
    };
    int n = has_joint_case && is_counted(report.status) ? 1 : 0;
    for (const compare::GateResult& task : report.tasks) n += is_counted(task.status) ? 1 : 0;
    return n;
  };
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"dp_bench gate\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
      "skipped=\"{}\">\n{}</testsuite>\n",
      report.tasks.size() + (has_joint_case ? 1 : 0), count("failure"), count("error"),
      count("skipped"), cases);
}

std::string GateMarkdown(const compare::GateReport& report) {
  const std::string title = report.tasks.size() == 1 ? report.tasks[0].title
                                                     : fmt::format("{} tasks", report.tasks.size());
  return fmt::format("### Success rate: {}\n\n{}: {}.\n{}", compare::StatusName(report.status),
                     EscapeMarkdown(title), EscapeMarkdown(report.reason), MarkdownTable(report));
}

}  // namespace dp_bench::report
