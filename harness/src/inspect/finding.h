// What a diagnosis says: hypotheses about what may be wrong, each with the numbers that speak for
// or against it. Torch-free.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dp_bench::inspect {

/// Confirmed: the fault is there. Inconclusive: what was at hand does not tell.
enum class Judgement { kConfirmed, kRejected, kInconclusive };

/// A problem keeps a policy from working or makes its numbers wrong; a note is worth knowing and
/// may be meant.
enum class Severity { kProblem, kNote };

/// How sure a confirmed finding is: a fact follows from the numbers alone, a likelihood needs a
/// judgement that can be wrong.
enum class Certainty { kFact, kLikely };

struct Finding {
  std::string id;               // "data.idle_steps"; the same for the same hypothesis, always
  std::string claim;            // the hypothesis as a sentence: "episodes stand still"
  std::string advice = {};      // of a confirmed one: what to change
  std::string config_key = {};  // where; empty when it is not in the config
  Certainty certainty = Certainty::kFact;
  Severity severity = Severity::kProblem;
  Judgement verdict = Judgement::kInconclusive;
  std::string evidence = {};  // numbers

  bool is_problem() const {
    return verdict == Judgement::kConfirmed && severity == Severity::kProblem;
  }
};

using Findings = std::vector<Finding>;

/// `hypothesis` with these numbers: confirmed where `is_fault`, else rejected.
Finding Decide(Finding hypothesis, bool is_fault, std::string evidence);

/// `hypothesis` left open, and why.
Finding LeaveOpen(Finding hypothesis, std::string reason);

bool HasProblems(const Findings& findings);

/// Confirmed ones first, with advice; then what the numbers do not tell, then what they rule out.
std::string ToText(const Findings& findings);

/// {"n_problems", "findings": [{"id", "verdict", "claim", "evidence", ...}]}.
nlohmann::json ToJson(const Findings& findings);

}  // namespace dp_bench::inspect
