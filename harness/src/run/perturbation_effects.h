// perturbations.json: the effect of each perturbation on a policy, paired with the control by seed.
#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "run/episode_record.h"

namespace dp_bench::run {

/// A difference from the control with its paired 95 % interval. NaN or infinite if there are too
/// few episodes; null in the file.
struct ArmDifference {
  double difference = std::numeric_limits<double>::quiet_NaN();
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
};

struct PerturbedArm {
  std::string name;                // as on the command line, "delay=3"
  std::string kind;                // "delay"
  std::optional<double> strength;  // none for `null`
  std::string note;                // why it cannot have an effect; empty if it can
  std::string folder;              // relative to the control's
  SplitSummary result;             // of the split "test"
  ArmDifference success_rate;
  ArmDifference score;
  double p_mcnemar = 1.0;  // two-sided
  double p_holm = 1.0;     // corrected for the number of arms
  /// Seeds whose traces differ. 0: the arm changed nothing at all, not just no outcome. None if
  /// outcomes are not a function of the seed; p_mcnemar is Fisher's then.
  std::optional<int> n_changed;
  int n_pairs = 0;  // shared seeds; not in the file
};

struct PerturbationEffects {
  SplitSummary control;
  std::vector<PerturbedArm> arms;
};

/// Writes perturbations.json into the control's folder. Throws Error{kIo}.
void WriteEffects(const std::filesystem::path& folder, const PerturbationEffects& effects);

/// Throws Error{kData} naming `origin` if the text is not a perturbations.json.
PerturbationEffects ParseEffects(std::string_view text, const std::string& origin);

}  // namespace dp_bench::run
