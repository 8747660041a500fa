// The results of a diagnosis: hypotheses about faults, each with the numbers for or against it.
// Torch-free.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dp_bench::diagnose {

/// Confirmed: the fault exists. Inconclusive: the available numbers do not decide it.
enum class Judgement { kConfirmed, kInconclusive, kRejected };

/// A problem keeps a policy from working or makes its numbers wrong. A note is worth knowing and
/// may be intended.
enum class Severity { kProblem, kNote };

/// How certain a confirmed finding is. A fact follows from the numbers alone; a likely finding
/// needs a judgement that can be wrong.
enum class Certainty { kFact, kLikely };

struct Finding {
  std::string id;               // "data.idle_steps"; never changes for a hypothesis
  std::string claim;            // the hypothesis as a sentence: "episodes stand still"
  std::string advice = {};      // if confirmed: what to change
  std::string config_key = {};  // the key to change; empty if it is not in the config
  Certainty certainty = Certainty::kFact;
  Severity severity = Severity::kProblem;
  Judgement verdict = Judgement::kInconclusive;
  std::string evidence = {};  // numbers

  bool is_problem() const {
    return verdict == Judgement::kConfirmed && severity == Severity::kProblem;
  }
};

using Findings = std::vector<Finding>;

/// hypotheses.json: "hypotheses", and the "groups" of a report, whose findings' ids begin with
/// "prefix" and a dot.
const nlohmann::json& HypothesisTexts();

/// The hypothesis of hypotheses.json with this id, not yet decided. Aborts if there is none.
Finding Hypothesis(std::string_view id);

/// `hypothesis` with these numbers: confirmed if `is_fault`, otherwise rejected.
Finding Decide(Finding hypothesis, bool is_fault, std::string evidence);
Finding Decide(std::string_view id, bool is_fault, std::string evidence);

/// The same with numbers that fmt::format makes of the values.
template <class Which, class T, class... More>
Finding Decide(Which&& which, bool is_fault, fmt::format_string<T, More...> evidence, T&& value,
               More&&... more) {
  return Decide(std::forward<Which>(which), is_fault,
                fmt::format(evidence, std::forward<T>(value), std::forward<More>(more)...));
}

/// Confirmed if there are `faults`, of which it shows `prefix` and the first five; otherwise
/// rejected with `healthy`.
Finding DecideByFaults(std::string_view id, const std::vector<std::string>& faults,
                       std::string_view prefix, std::string healthy);

/// The hypothesis left open, with the reason.
Finding LeaveOpen(Finding hypothesis, std::string reason);
Finding LeaveOpen(std::string_view id, std::string reason);

inline constexpr std::size_t kMaxListed = 5;  // of a list in a text

/// Null if there is no finding with this id.
const Finding* Find(const Findings& findings, std::string_view id);

bool HasProblems(const Findings& findings);

/// "CONFIRMED", "REJECTED" or "INCONCLUSIVE".
const char* Name(Judgement verdict);

/// {"n_problems", "findings": [{"id", "verdict", "claim", "evidence", ...}]}.
nlohmann::json ToJson(const Findings& findings);

/// The same for the template findings.txt: confirmed findings first, with advice; then the
/// inconclusive ones, then the rejected ones.
nlohmann::json TextView(Findings findings);
std::string ToText(const Findings& findings);

}  // namespace dp_bench::diagnose
