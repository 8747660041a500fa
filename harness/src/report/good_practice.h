// What a reader needs to trust and to repeat an evaluation, beside its numbers: the list of
// Kress-Gazit et al. 2024, "Robot learning as an empirical science: best practices for policy
// evaluation" (arXiv 2409.09491), as far as a run folder knows it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "run/run_folder.h"

namespace dp_bench::report {

/// What report.html shows of the test episodes; null without any:
///   start        which initial conditions: {seeds: {first, n}, env, params, perturbation,
///                certificate}. The last one says whether episodes are a function of their seeds
///   success      {params, score_metric, n_lost_again, lost_again, lost_href}: the env's params
///                about success, and the episodes without success at their last step, with the
///                seed of one
///   failures     each kind, the largest first: {kind, meaning, n, and one episode of it: seed,
///                href, command}, if possible one with a video
///   duplicates   test seeds that begin with the same observation: {n_known, n_distinct, groups}
///   jerk         medians over episodes: {of_success, of_failure}, each {n, at_seams, elsewhere}
///   comparisons  what it was chosen from or compared with: {n_checkpoints, selection, n_arms}
/// What is not recorded is null or "". Links lead to the videos on the page. Throws as
/// RunFolder::ReadEffects.
nlohmann::json PracticeJson(const run::RunFolder& run);

}  // namespace dp_bench::report
