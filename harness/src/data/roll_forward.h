// State roll-forward (VLASH, arXiv 2512.01031): the robot's own state is replaced by where the
// actions that are executed until a plan is there lead. The same for training and execution.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace dp_bench::data {

/// For an observation key, the element of the action that its elements follow; -1: none, the
/// element stays as observed. For robots under position control, whose actions are targets of
/// these elements.
using FollowedActions = std::map<std::string, std::vector<int>>;

/// Moves the elements of one key that follow an action `delay` steps ahead. `window`: [To, D], the
/// newest frame last. `action(i)`: the action of step i, as a pointer to [Da]; the step of the
/// newest frame is 0, and i < delay. A frame that is not observed yet becomes the action before it.
template <class ActionOf>
void RollForward(const std::vector<int>& followed, int delay, const ActionOf& action,
                 std::span<float> window) {
  const std::size_t n_elements = followed.size();
  const auto n_steps = static_cast<int>(window.size() / n_elements);
  for (int step = 0; step < n_steps; ++step) {
    const int before = delay - (n_steps - step);  // below 0: the frame is observed
    const float* frame =
        before < 0 ? &window[static_cast<std::size_t>(step + delay) * n_elements] : action(before);
    for (std::size_t i = 0; i < n_elements; ++i) {
      if (followed[i] < 0) continue;
      const std::size_t source = before < 0 ? i : static_cast<std::size_t>(followed[i]);
      window[static_cast<std::size_t>(step) * n_elements + i] = frame[source];
    }
  }
}

}  // namespace dp_bench::data
