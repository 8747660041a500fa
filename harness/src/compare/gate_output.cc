// The forms of a GateResult: text for people, JSON for programs, JUnit XML for a CI server,
// Markdown for a pull request.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "compare/gate.h"

namespace dp_bench {
namespace {

using Json = nlohmann::json;

bool HasVerdict(const GateResult& result) { return result.test.counts().n_pairs() > 0; }

std::string Evidence(double log_evidence, double error_rate) {
  return fmt::format("{:.3g} of {:.3g}", std::exp(log_evidence), 1.0 / error_rate);
}

struct Row {
  const char* name;
  std::string value;
};

std::vector<Row> Rows(const GateResult& result) {
  std::vector<Row> rows;
  for (const Mismatch& mismatch : result.mismatches) {
    rows.push_back({"differs", fmt::format("{}: {}, in the candidate {}", mismatch.field,
                                           mismatch.a, mismatch.b)});
  }
  if (!HasVerdict(result)) return rows;
  const SequentialTestConfig& config = result.test.config();
  const OutcomeCounts& counts = result.test.counts();
  const auto rate = [](const RateInterval& interval) {
    return fmt::format("{:.3f} ({:.3f} to {:.3f}), {}/{}", interval.rate, interval.low,
                       interval.high, interval.n_success, interval.n);
  };
  rows.push_back({"baseline", rate(result.baseline)});
  rows.push_back({"candidate", rate(result.candidate)});
  rows.push_back({"seeds", fmt::format("{}: {} lost, {} gained, {} same", counts.n_pairs(),
                                       counts.n_lost, counts.n_gained, counts.n_same)});
  rows.push_back({"drop", fmt::format("{:+.3f} ({:+.3f} to {:+.3f} at every look)",
                                      result.drop.drop, result.drop.low, result.drop.high)});
  if (!result.test.looks().empty()) {
    const Look& look = result.test.looks().back();
    rows.push_back({"evidence of a drop", Evidence(look.log_fail_evidence, config.alpha)});
    rows.push_back({"evidence of none",
                    fmt::format("{}, for a margin of {:.3g}",
                                Evidence(look.log_pass_evidence, config.beta), config.margin)});
  }
  rows.push_back({"correlation", fmt::format("{:.2f} over the seeds", result.rho)});
  return rows;
}

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

const char* JUnitElement(GateStatus status) {
  switch (status) {
    case GateStatus::kPass:
      return nullptr;
    case GateStatus::kFail:
      return "failure";
    case GateStatus::kInconclusive:
      return "skipped";
    case GateStatus::kNotComparable:
    case GateStatus::kInfra:
      break;
  }
  return "error";
}

Json RateJson(const RateInterval& rate) {
  return {{"rate", rate.rate},
          {"low", rate.low},
          {"high", rate.high},
          {"n_success", rate.n_success},
          {"n", rate.n}};
}

}  // namespace

std::string GateText(const GateResult& result) {
  std::string text = fmt::format("{}: {}\n", StatusName(result.status), result.reason);
  for (const Row& row : Rows(result)) text += fmt::format("  {:<19} {}\n", row.name, row.value);
  return text;
}

Json ToJson(const GateResult& result) {
  Json mismatches = Json::array();
  for (const Mismatch& mismatch : result.mismatches) {
    mismatches.push_back({{"field", mismatch.field}, {"a", mismatch.a}, {"b", mismatch.b}});
  }
  return {
      {"status", StatusName(result.status)},
      {"exit_code", ExitCodeOf(result.status)},
      {"reason", result.reason},
      {"candidate_title", result.title},
      {"mismatches", mismatches},
      {"signature", result.has_signature},
      {"n_shared", result.n_shared},
      {"baseline", RateJson(result.baseline)},
      {"candidate", RateJson(result.candidate)},
      {"drop", {{"drop", result.drop.drop}, {"low", result.drop.low}, {"high", result.drop.high}}},
      {"rho", result.rho},
      {"test", result.test.ToJson()}};
}

std::string GateJUnit(const GateResult& result) {
  const char* element = JUnitElement(result.status);
  const auto counted = [element](std::string_view name) {
    return element != nullptr && element == name ? 1 : 0;
  };
  std::string xml = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"dp_bench gate\" tests=\"1\" failures=\"{}\" errors=\"{}\" "
      "skipped=\"{}\">\n  <testcase classname=\"success_rate\" name=\"{}\">\n",
      counted("failure"), counted("error"), counted("skipped"), Escaped(result.title));
  if (element != nullptr) {
    xml += fmt::format("    <{} message=\"{}\"/>\n", element,
                       Escaped(fmt::format("{}: {}", StatusName(result.status), result.reason)));
  }
  return xml + fmt::format("    <system-out>{}</system-out>\n  </testcase>\n</testsuite>\n",
                           Escaped(GateText(result)));
}

std::string GateMarkdown(const GateResult& result) {
  std::string text = fmt::format("### Success rate: {}\n\n{}: {}.\n", StatusName(result.status),
                                 result.title, result.reason);
  const std::vector<Row> rows = Rows(result);
  if (rows.empty()) return text;
  text += "\n| | |\n|---|---|\n";
  for (const Row& row : rows) text += fmt::format("| {} | {} |\n", row.name, row.value);
  return text;
}

}  // namespace dp_bench
