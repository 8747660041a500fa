#include "control/action_queue.h"

#include <algorithm>
#include <utility>

namespace dp_bench::control {

ActionQueue::ActionQueue(int n_action_steps, std::size_t action_dim, int n_stale)
    : n_action_steps_(n_action_steps), action_dim_(action_dim), n_stale_(n_stale) {
  const auto size = static_cast<std::size_t>(n_action_steps) * action_dim;
  chunk_.resize(size);
  previous_.resize(size);
}

void ActionQueue::Clear() {
  has_previous_ = false;
  n_from_previous_ = 0;
  n_from_chunk_ = 0;
  end_of_chunk_ = 0;
}

void ActionQueue::Ask() {
  std::swap(chunk_, previous_);
  next_of_previous_ = end_of_chunk_;
  n_from_previous_ = has_previous_ ? n_stale_ : 0;
  n_from_chunk_ = 0;
}

void ActionQueue::Take() {
  // until n_stale_ actions are left for the next plan
  const int first = std::min(n_from_previous_, n_action_steps_);
  end_of_chunk_ = std::max(n_action_steps_ - n_stale_, has_previous_ ? first : 1);
  n_from_chunk_ = end_of_chunk_ - first;
  has_previous_ = true;
}

void ActionQueue::Abandon() {
  std::swap(chunk_, previous_);
  end_of_chunk_ = std::min(next_of_previous_ + n_from_previous_, n_action_steps_);
  n_from_previous_ = 0;
  n_from_chunk_ = 0;
}

std::span<const float> ActionQueue::action(int i) const {
  const std::vector<float>& chunk = is_stale(i) ? previous_ : chunk_;
  // fresh actions end at end_of_chunk_, with the last step
  const int index = is_stale(i) ? next_of_previous_ + i : end_of_chunk_ - n_steps() + i;
  const auto row = static_cast<std::size_t>(std::min(index, n_action_steps_ - 1));
  return std::span(chunk).subspan(row * action_dim_, action_dim_);
}

std::vector<float> ActionQueue::steps() const {
  std::vector<float> actions;
  for (int i = 0; i < n_steps(); ++i) {
    const std::span<const float> one = action(i);
    actions.insert(actions.end(), one.begin(), one.end());
  }
  return actions;
}

}  // namespace dp_bench::control
