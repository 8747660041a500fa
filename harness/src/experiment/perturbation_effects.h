// What perturbations did to a policy: each arm against the control, seed by seed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "compare/run_comparison.h"
#include "experiment/perturbation_arms.h"

namespace dp_bench::experiment {

/// PerturbationJson in the control's run folder, where report.html finds it.
inline constexpr const char* kEffectsFile = "perturbations.json";

/// `comparison`: of the control and then each arm, in this order. One row each: success rate and
/// mean score, what the arm changed of them with paired 95 % intervals, and the number of episodes
/// that went differently. Ends with a line break.
std::string PerturbationTable(const compare::RunComparison& comparison,
                              std::span<const PerturbationArm> arms);

/// The same for programs, and for report.html.
nlohmann::json PerturbationJson(const compare::RunComparison& comparison,
                                std::span<const PerturbationArm> arms);

}  // namespace dp_bench::experiment
