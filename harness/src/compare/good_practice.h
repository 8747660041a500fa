// What a reader needs to trust and to repeat an evaluation, beside its numbers: the list of
// Kress-Gazit et al. 2024, "Robot learning as an empirical science: best practices for policy
// evaluation" (arXiv 2409.09491), as far as a run folder knows it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compare/failure_clusters.h"
#include "run/manifest.h"
#include "run/run_folder.h"

namespace dp_bench::compare {

/// Which initial conditions, and how they were drawn.
struct InitialConditions {
  run::SeedRange seeds;      // of the test episodes
  std::string env;           // the plugin; empty: not recorded
  std::string params;        // env.params, as JSON; empty: not recorded
  std::string perturbation;  // env.perturb, as JSON; empty: none
  /// Whether episodes are a function of their seeds; empty: not checked (env_runner.certify).
  std::string certificate;
};

/// When an episode counts as successful.
struct SuccessCriterion {
  std::vector<std::string> params;  // "success_threshold = 0.95": those of the env about success
  std::string score_metric;         // env_runner.score_metric; empty: the highest reward
  int n_lost_again = 0;             // successful episodes without success at their last step
  std::optional<std::uint64_t> lost_again;  // the seed of one, if possible with a video
};

/// A kind of unsuccessful episodes.
struct FailureExample {
  FailureKind kind = FailureKind::kUnknown;
  int n = 0;
  int episode = 0;  // one of them, if possible with a video
  std::uint64_t seed = 0;
  bool has_video = false;
};

/// Test seeds whose episodes begin with the same observation.
struct DuplicateStarts {
  int n_known = 0;                                 // episodes whose first observation is recorded
  int n_distinct = 0;                              // first observations
  std::vector<std::vector<std::uint64_t>> groups;  // of two seeds or more, the largest first
};

/// Medians over the episodes; see run::EpisodeRecord::jerk_at_seams.
struct TypicalJerk {
  int n = 0;  // episodes that have it
  double at_seams = 0.0;
  double elsewhere = 0.0;
};

/// What this evaluation was chosen from or compared with.
struct Comparisons {
  int n_checkpoints = 0;     // evaluations during the training; 0: none in this folder
  run::SeedRange selection;  // their test seeds; n = 0: not recorded
  int n_arms = 0;            // perturbations that are compared with this evaluation
};

struct GoodPractice {
  InitialConditions start;
  SuccessCriterion success;
  std::vector<FailureExample> failures;  // the largest kind first
  DuplicateStarts duplicates;
  TypicalJerk of_success, of_failure;
  Comparisons comparisons;
};

/// Of the test episodes; none without any. Throws as RunFolder::ReadEffects.
std::optional<GoodPractice> DescribePractice(const run::RunFolder& run);

/// {start, success, failures, duplicates, jerk: {of_success, of_failure}, comparisons}. What is
/// not recorded is null.
nlohmann::json ToJson(const GoodPractice& practice);

}  // namespace dp_bench::compare
