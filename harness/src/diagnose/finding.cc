// See finding.h.
#include "diagnose/finding.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/list_some.h"
#include "dp_bench/error.h"
#include "report/render.h"

namespace dp_bench::diagnose {

extern const char* const kHypothesisTexts;  // the content of hypotheses.json

namespace {

std::map<std::string, Finding, std::less<>> ReadHypotheses() {
  std::map<std::string, Finding, std::less<>> hypotheses;
  for (const nlohmann::json& row : HypothesisTexts()["hypotheses"]) {
    const auto text = [&](const char* key) { return row.value(key, std::string()); };
    hypotheses[text("id")] = {
        .id = text("id"),
        .claim = text("claim"),
        .advice = text("advice"),
        .config_key = text("config_key"),
        .certainty = text("certainty") == "likely" ? Certainty::kLikely : Certainty::kFact,
        .severity = text("severity") == "note" ? Severity::kNote : Severity::kProblem};
  }
  return hypotheses;
}

}  // namespace

const nlohmann::json& HypothesisTexts() {
  static const nlohmann::json texts = nlohmann::json::parse(kHypothesisTexts);
  return texts;
}

Finding Hypothesis(std::string_view id) {
  static const auto hypotheses = ReadHypotheses();
  const auto found = hypotheses.find(id);
  DPB_ASSERT(found != hypotheses.end());
  return found->second;
}

Finding Decide(Finding hypothesis, bool is_fault, std::string evidence) {
  hypothesis.verdict = is_fault ? Judgement::kConfirmed : Judgement::kRejected;
  hypothesis.evidence = std::move(evidence);
  return hypothesis;
}

Finding Decide(std::string_view id, bool is_fault, std::string evidence) {
  return Decide(Hypothesis(id), is_fault, std::move(evidence));
}

Finding DecideByFaults(std::string_view id, const std::vector<std::string>& faults,
                       std::string_view prefix, std::string healthy) {
  if (faults.empty()) return Decide(id, false, std::move(healthy));
  return Decide(id, true, std::string(prefix) + core::ListSome(faults, kMaxListed));
}

Finding LeaveOpen(Finding hypothesis, std::string reason) {
  hypothesis.verdict = Judgement::kInconclusive;
  hypothesis.evidence = std::move(reason);
  return hypothesis;
}

Finding LeaveOpen(std::string_view id, std::string reason) {
  return LeaveOpen(Hypothesis(id), std::move(reason));
}

const Finding* Find(const Findings& findings, std::string_view id) {
  const auto found = std::ranges::find(findings, id, &Finding::id);
  return found == findings.end() ? nullptr : &*found;
}

const char* Name(Judgement verdict) {
  constexpr std::array kNames = {"CONFIRMED", "INCONCLUSIVE", "REJECTED"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

bool HasProblems(const Findings& findings) {
  return std::ranges::any_of(findings, &Finding::is_problem);
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
      entry["certainty"] = finding.certainty == Certainty::kFact ? "a fact" : "likely";
      entry["advice"] = finding.advice;
      entry["config_key"] = finding.config_key;
    }
    list.push_back(std::move(entry));
  }
  return {{"n_problems", std::ranges::count_if(findings, &Finding::is_problem)},
          {"findings", std::move(list)}};
}

nlohmann::json TextView(Findings findings) {
  std::ranges::stable_sort(findings, {}, &Finding::verdict);
  nlohmann::json view = ToJson(findings);
  view["problems"] = nlohmann::json::array();
  for (const Finding& finding : findings) {
    if (finding.is_problem()) view["problems"].push_back(finding.id);
  }
  view["problem_word"] = view["problems"].size() == 1 ? "problem" : "problems";
  return view;
}

std::string ToText(const Findings& findings) {
  return report::Render("findings.txt", TextView(findings));
}

}  // namespace dp_bench::diagnose
