#include "rollout/action_queue.h"

#include <algorithm>

namespace dp_bench::rollout {

ActionQueue::ActionQueue(int n_action_steps, std::size_t action_dim, int n_stale)
    : n_action_steps_(n_action_steps), action_dim_(action_dim), n_stale_(n_stale) {
  const auto size = static_cast<std::size_t>(n_action_steps) * action_dim;
  chunk_.resize(size);
  previous_.resize(size);
  steps_.reserve(size + static_cast<std::size_t>(n_stale) * action_dim);
}

int ActionQueue::Begin() {
  steps_.clear();
  const auto append = [this](const std::vector<float>& chunk, int i) {
    const auto row = static_cast<std::size_t>(std::min(i, n_action_steps_ - 1)) * action_dim_;
    const auto begin = chunk.begin() + static_cast<std::ptrdiff_t>(row);
    steps_.insert(steps_.end(), begin, begin + static_cast<std::ptrdiff_t>(action_dim_));
  };

  n_from_previous_ = has_previous_ ? n_stale_ : 0;
  for (int i = 0; i < n_from_previous_; ++i) append(previous_, next_ + i);

  // then actions of the new chunk, until n_stale_ are left for the next plan
  const int first = std::min(n_from_previous_, n_action_steps_);
  const int end = std::max(n_action_steps_ - n_stale_, has_previous_ ? first : 1);
  for (int i = first; i < end; ++i) append(chunk_, i);
  next_ = end;
  previous_ = chunk_;
  has_previous_ = true;
  return static_cast<int>(steps_.size() / action_dim_);
}

std::span<const float> ActionQueue::action(int i) const {
  return std::span(steps_).subspan(static_cast<std::size_t>(i) * action_dim_, action_dim_);
}

}  // namespace dp_bench::rollout
