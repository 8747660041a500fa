// perturbations.json: what perturbations did to a policy, each arm against the control, seed by
// seed.
#pragma once

#include <filesystem>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::run {

/// What one evaluation of the comparison came to.
struct ArmResult {
  std::string folder;  // relative to the control's
  int n_episodes = 0;
  int n_success = 0;
  int n_failed = 0;
  double success_rate = 0.0;
  double mean_score = 0.0;
};

/// A difference from the control with its paired 95 % interval. What too few episodes leave open is
/// not finite, and null in the file.
struct ArmDifference {
  double difference = std::numeric_limits<double>::quiet_NaN();
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
};

struct PerturbedArm {
  std::string name;                // as asked for, "delay=3"
  std::string kind;                // "delay"
  std::optional<double> strength;  // none for `null`
  std::string note;                // why it cannot have an effect; empty when it may
  ArmResult result;
  ArmDifference success_rate;
  ArmDifference score;
  double p_mcnemar = 1.0;  // two-sided
  double p_holm = 1.0;     // corrected for the number of arms
  /// Seeds whose traces differ: 0 says that the arm had no effect at all, and not merely none on
  /// the outcomes.
  int n_changed = 0;
  int n_pairs = 0;  // seeds that both ran; not in the file
};

struct PerturbationEffects {
  ArmResult control;
  std::vector<PerturbedArm> arms;
};

/// Writes perturbations.json into the control's folder. Throws Error{kIo}.
void WriteEffects(const std::filesystem::path& folder, const PerturbationEffects& effects);

/// Throws Error{kData} naming `origin` when the text is something else.
PerturbationEffects ParseEffects(std::string_view text, const std::string& origin);

}  // namespace dp_bench::run
