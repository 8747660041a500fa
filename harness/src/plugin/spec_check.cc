#include "plugin/spec_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/errors.h"

namespace dp_bench::plugin {
namespace {

using Problems = std::vector<std::string>;

template <class... Args>
void AddProblem(Problems* problems, fmt::format_string<Args...> text, Args&&... args) {
  problems->push_back(fmt::format(text, std::forward<Args>(args)...));
}

void ThrowProblems(std::string_view whose, const Problems& problems, std::string_view what_to_do) {
  if (problems.empty()) return;
  throw PluginError("{} breaks the contract:\n  {}\n  {}", whose, fmt::join(problems, "\n  "),
                    what_to_do);
}

bool IsFixed(std::span<const std::int64_t> shape) {
  return !shape.empty() && std::ranges::all_of(shape, [](std::int64_t size) { return size > 0; });
}

// What an env may offer under a key. A dataset may hold numbers of any type and images with
// other channels: what reads it checks them against shape_meta.
void CheckKey(const KeySpec& key, bool is_of_env, Problems* problems) {
  const std::string found = fmt::format("{} {}", ToString(key.shape), Name(key.dtype));
  if (key.name.empty()) AddProblem(problems, "expected a name for every key, found none");
  if (is_of_env && key.name == "action") {  // datasets hold observations and actions side by side
    AddProblem(problems, "expected another name for the observation 'action': the action has it");
  }
  if (!IsFixed(key.shape)) {
    AddProblem(problems, "'{}': expected a shape with sizes of 1 or more, found {}", key.name,
               found);
    return;
  }
  const auto is_image = [&](std::int64_t n_channels) {
    return key.shape.size() == 3 && (!is_of_env || key.shape[0] == n_channels);
  };
  if (!key.is_image() && is_of_env && key.dtype != DType::kFloat32) {
    AddProblem(problems, "'{}': expected float32, as every {} key, found {}", key.name,
               Name(key.type), found);
  }
  if (key.type == KeyType::kRgb && !(is_image(3) && key.dtype == DType::kUInt8)) {
    AddProblem(problems, "'{}': expected [3, height, width] uint8, as every rgb key, found {}",
               key.name, found);
  }
  const bool has_depth_type = key.dtype == DType::kUInt16 || key.dtype == DType::kFloat32;
  if (key.type == KeyType::kDepth && !(is_image(1) && has_depth_type)) {
    AddProblem(problems,
               "'{}': expected [1, height, width] uint16 [mm] or float32 [m], as every depth key, "
               "found {}",
               key.name, found);
  }
}

void CheckOrder(const std::vector<KeySpec>& keys, Problems* problems) {
  for (std::size_t i = 1; i < keys.size(); ++i) {
    if (keys[i - 1].name < keys[i].name) continue;
    AddProblem(problems, "expected keys in alphabetical order, each once, found '{}' before '{}'",
               keys[i - 1].name, keys[i].name);
  }
}

void CheckBounds(const EnvSpec& spec, Problems* problems) {
  const auto wanted = static_cast<std::size_t>(spec.shape_meta.action_dim());
  const auto check_size = [&](const char* name, std::size_t found) {
    if (found == wanted) return;
    AddProblem(problems, "{}: expected {} numbers, one per dimension of the action, found {}", name,
               wanted, found);
  };
  check_size("action_low", spec.action_low.size());
  check_size("action_high", spec.action_high.size());
  for (std::size_t i = 0; i < std::min(spec.action_low.size(), spec.action_high.size()); ++i) {
    const float low = spec.action_low[i];
    const float high = spec.action_high[i];
    if (std::isfinite(low) && std::isfinite(high) && low < high) continue;
    AddProblem(problems,
               "dimension {} of the action: expected finite bounds with action_low < action_high, "
               "found {} and {}",
               i, low, high);
  }
}

void CheckAction(const EnvSpec& spec, Problems* problems) {
  const KeySpec& action = spec.shape_meta.action;
  const bool is_vector = action.type == KeyType::kLowDim && action.dtype == DType::kFloat32 &&
                         action.shape.size() == 1 && IsFixed(action.shape);
  if (action.name == "action" && is_vector) {
    CheckBounds(spec, problems);
  } else {
    AddProblem(problems,
               "shape_meta.action: expected the name 'action' and a shape [Da] float32, found '{}' "
               "{} {}",
               action.name, ToString(action.shape), Name(action.dtype));
  }
}

void RequireUniqueNames(const char* what, const std::vector<std::string>& names,
                        Problems* problems) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!name.empty() && seen.insert(name).second) continue;
    AddProblem(problems, "{}: expected names that occur once, found '{}'", what, name);
  }
}

void CheckLists(const EnvSpec& spec, Problems* problems) {
  std::vector<std::string> metrics;
  for (const MetricSpec& metric : spec.metrics) metrics.push_back(metric.name);
  RequireUniqueNames("metrics", metrics, problems);
  RequireUniqueNames("tasks", spec.tasks, problems);
  RequireUniqueNames("obs_modes", spec.obs_modes, problems);
  RequireUniqueNames("cameras", spec.abilities.cameras, problems);
  std::vector<std::string> perturbations;
  for (const PerturbationSpec& perturbation : spec.perturbations) {
    perturbations.push_back(perturbation.name);
    const bool holds_strength =
        perturbation.low <= perturbation.strength && perturbation.strength <= perturbation.high;
    if (holds_strength) continue;
    AddProblem(problems, "perturbation '{}': expected a strength from {} to {}, found {}",
               perturbation.name, perturbation.low, perturbation.high, perturbation.strength);
  }
  RequireUniqueNames("perturbations", perturbations, problems);
}

}  // namespace

EnvSpec WithSortedKeys(EnvSpec spec) {
  std::ranges::stable_sort(spec.shape_meta.obs, {}, &KeySpec::name);
  return spec;
}

void RequireSound(const EnvSpec& spec) {
  Problems problems;
  if (spec.shape_meta.obs.empty()) {
    AddProblem(&problems, "shape_meta.obs: expected at least one observation, found none");
  }
  for (const KeySpec& key : spec.shape_meta.obs) CheckKey(key, /*is_of_env=*/true, &problems);
  CheckOrder(spec.shape_meta.obs, &problems);
  CheckAction(spec, &problems);
  if (!(std::isfinite(spec.control_hz) && spec.control_hz > 0.0)) {
    AddProblem(&problems, "control_hz: expected env steps per second, more than 0, found {}",
               spec.control_hz);
  }
  if (spec.max_steps < 1) {
    AddProblem(&problems, "max_steps: expected 1 or more, found {}", spec.max_steps);
  }
  CheckLists(spec, &problems);
  ThrowProblems("the env's spec", problems, "Correct Describe.");
}

void RequireSound(const DatasetSpec& spec, std::span<const std::int64_t> episode_ends) {
  Problems problems;
  if (spec.keys.empty()) AddProblem(&problems, "keys: expected at least one, found none");
  for (const KeySpec& key : spec.keys) CheckKey(key, /*is_of_env=*/false, &problems);
  CheckOrder(spec.keys, &problems);
  if (!(std::isfinite(spec.fps) && spec.fps >= 0.0)) {
    AddProblem(&problems, "fps: expected steps per second, or 0 if unknown, found {}", spec.fps);
  }
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < episode_ends.size(); begin = episode_ends[i], ++i) {
    if (episode_ends[i] > begin) continue;
    AddProblem(&problems,
               "episode_ends: expected the index after the last step of each episode, increasing "
               "from 1 or more, found {} after {} at episode {}",
               episode_ends[i], begin, i);
    break;
  }
  ThrowProblems("the dataset", problems, "Correct spec and episode_ends.");
}

}  // namespace dp_bench::plugin
