// See finding.h.
#include "inspect/finding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

namespace dp_bench::inspect {
namespace {

const char* Name(Judgement verdict) {
  constexpr std::array kNames = {"CONFIRMED", "REJECTED", "INCONCLUSIVE"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

const char* Name(Certainty certainty) {
  return certainty == Certainty::kFact ? "a fact" : "likely";
}

std::string Describe(const Finding& finding) {
  std::string text = fmt::format("{:<12} {}: {}\n             {}\n", Name(finding.verdict),
                                 finding.id, finding.claim, finding.evidence);
  if (finding.verdict != Judgement::kConfirmed) return text;
  const char* kind = finding.severity == Severity::kProblem ? "problem" : "note";
  text += fmt::format("             {} ({})", kind, Name(finding.certainty));
  if (!finding.advice.empty()) text += fmt::format(": {}", finding.advice);
  if (!finding.config_key.empty()) text += fmt::format(" [{}]", finding.config_key);
  return text + "\n";
}

std::string VerdictInWords(std::size_t n_problems, const Findings& findings) {
  if (n_problems == 0) return "no problem found\n";
  std::string text = fmt::format("{} problem{} found:", n_problems, n_problems == 1 ? "" : "s");
  for (const Finding& finding : findings) {
    if (finding.is_problem()) text += " " + finding.id;
  }
  return text + "\n";
}

}  // namespace

Finding Decide(Finding hypothesis, bool is_fault, std::string evidence) {
  hypothesis.verdict = is_fault ? Judgement::kConfirmed : Judgement::kRejected;
  hypothesis.evidence = std::move(evidence);
  return hypothesis;
}

Finding LeaveOpen(Finding hypothesis, std::string reason) {
  hypothesis.verdict = Judgement::kInconclusive;
  hypothesis.evidence = std::move(reason);
  return hypothesis;
}

std::string ListSome(const std::vector<std::string>& names, std::string_view separator) {
  constexpr std::size_t kMaxListed = 5;
  const std::size_t shown = std::min(names.size(), kMaxListed);
  std::string text = fmt::format(
      "{}",
      fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), separator));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

bool HasProblems(const Findings& findings) {
  return std::ranges::any_of(findings, &Finding::is_problem);
}

std::string ToText(const Findings& findings) {
  std::string text;
  for (const Judgement verdict :
       {Judgement::kConfirmed, Judgement::kInconclusive, Judgement::kRejected}) {
    for (const Finding& finding : findings) {
      if (finding.verdict == verdict) text += Describe(finding);
    }
  }
  const auto n_problems =
      static_cast<std::size_t>(std::ranges::count_if(findings, &Finding::is_problem));
  return text + "\n" + VerdictInWords(n_problems, findings);
}

nlohmann::json ToJson(const Findings& findings) {
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& finding : findings) {
    nlohmann::json entry = {{"id", finding.id},
                            {"verdict", Name(finding.verdict)},
                            {"claim", finding.claim},
                            {"evidence", finding.evidence}};
    if (finding.verdict == Judgement::kConfirmed) {
      entry["severity"] = finding.severity == Severity::kProblem ? "problem" : "note";
      entry["certainty"] = Name(finding.certainty);
      entry["advice"] = finding.advice;
      entry["config_key"] = finding.config_key;
    }
    list.push_back(std::move(entry));
  }
  return {{"n_problems", std::ranges::count_if(findings, &Finding::is_problem)},
          {"findings", std::move(list)}};
}

}  // namespace dp_bench::inspect
