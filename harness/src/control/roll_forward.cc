#include "control/roll_forward.h"

#include <algorithm>
#include <span>

#include "core/errors.h"

namespace dp_bench::control {

FollowedActions ReadFollowedActions(const Config& section) {
  FollowedActions followed;
  for (const std::string& key : section.Keys()) {
    const auto indices = section.Require<std::vector<std::int64_t>>(
        key,
        "state_roll_forward: the action that each element of this observation follows; -1: none");
    followed[key].assign(indices.begin(), indices.end());
  }
  return followed;
}

void RequireFits(const FollowedActions& followed, const ShapeMeta& shape_meta) {
  constexpr const char* kWhere = "env_runner.chunking.followed_actions";
  if (followed.empty()) {
    throw ConfigError(
        "{}: state_roll_forward needs to know which observations follow which actions, such as "
        "{{\"agent_pos\": [0, 1]}}; found nothing",
        kWhere);
  }
  for (const auto& [key, actions] : followed) {
    const auto spec = std::ranges::find(shape_meta.obs, key, &KeySpec::name);
    const bool is_there = spec != shape_meta.obs.end() && spec->type == KeyType::kLowDim;
    if (!is_there || spec->NumElements() != std::ssize(actions)) {
      throw ConfigError("{}.{}: expected a low_dim observation with {} elements, found {}", kWhere,
                        key, actions.size(),
                        is_there ? std::to_string(spec->NumElements()) : "none of this name");
    }
    const auto [least, most] = std::ranges::minmax(actions);
    if (least >= -1 && most < shape_meta.action_dim()) continue;
    throw ConfigError("{}.{}: expected indices from -1 to {}, found {} to {}", kWhere, key,
                      shape_meta.action_dim() - 1, least, most);
  }
}

void RollForward(const FollowedActions& followed, const PlanRow& row, std::int64_t action_dim,
                 std::size_t place, ObsBatch* obs) {
  const auto dim = static_cast<std::size_t>(action_dim);
  const auto n_known = static_cast<int>(row.committed.size() / dim);
  const int n_passed = n_known > 0 ? row.delay : 0;  // an episode begins with its first chunk
  if (n_passed == 0) return;
  for (const auto& [key, actions] : followed) {
    Array& batch = obs->find(key)->second;
    const auto n_steps = static_cast<int>(batch.shape()[1]);
    const std::size_t n_elements = actions.size();
    const std::span<float> window =
        batch.as<float>().subspan(place * static_cast<std::size_t>(n_steps) * n_elements,
                                  static_cast<std::size_t>(n_steps) * n_elements);
    for (int step = 0; step < n_steps; ++step) {
      // the action after which this frame would be observed; before the first: an observed frame
      const int action = n_passed - (n_steps - step);
      for (std::size_t i = 0; i < n_elements; ++i) {
        if (actions[i] < 0) continue;
        float& element = window[static_cast<std::size_t>(step) * n_elements + i];
        element =
            action < 0
                ? window[static_cast<std::size_t>(step + n_passed) * n_elements + i]
                : row.committed[static_cast<std::size_t>(std::min(action, n_known - 1)) * dim +
                                static_cast<std::size_t>(actions[i])];
      }
    }
  }
}

}  // namespace dp_bench::control
