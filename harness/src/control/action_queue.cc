#include "control/action_queue.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dp_bench::control {

ActionQueue::ActionQueue(int n_action_steps, std::size_t action_dim, int n_execute,
                         std::optional<double> ensemble_coeff, bool starts_on_arrival)
    : n_action_steps_(n_action_steps),
      action_dim_(action_dim),
      n_execute_(n_execute),
      starts_on_arrival_(starts_on_arrival) {
  const auto n_steps = static_cast<std::size_t>(n_action_steps);
  chunk_.resize(n_steps * action_dim);
  previous_.resize(n_steps * action_dim);
  if (!ensemble_coeff) return;
  // the weights of n plans, exp(-coeff * i), relative to the last one: 1 + exp(coeff) * those of n
  // - 1
  double total = 0.0;
  for (int i = 0; i < n_action_steps; ++i) {
    total = 1.0 + std::exp(*ensemble_coeff) * total;
    shares_.push_back(1.0 / total);
  }
  n_plans_.resize(n_steps);
  previous_n_plans_.resize(n_steps);
}

void ActionQueue::Clear() {
  has_previous_ = false;
  n_from_previous_ = 0;
  n_from_chunk_ = 0;
  end_of_chunk_ = 0;
}

void ActionQueue::Ask(int n_steps) {
  std::swap(chunk_, previous_);
  std::swap(n_plans_, previous_n_plans_);
  next_of_previous_ = end_of_chunk_;
  n_from_previous_ = has_previous_ ? n_steps : 0;
  n_expected_ = n_from_previous_;
  n_from_chunk_ = 0;
}

std::span<const float> ActionQueue::committed() const {
  if (!has_previous_) return {};
  const int last = n_action_steps_ - 1;
  const int first = starts_on_arrival_ ? std::min(next_of_previous_, last) : next_of_previous_;
  return std::span(previous_).subspan(static_cast<std::size_t>(first) * action_dim_);
}

void ActionQueue::Take() {
  const int n_passed = n_from_previous_ - (starts_on_arrival_ ? n_expected_ : 0);
  const int first = std::min(n_passed, n_action_steps_);
  if (is_ensembling()) {
    AverageWithPrevious();
    end_of_chunk_ = std::min(first + 1, n_action_steps_);
  } else {
    end_of_chunk_ = std::max(n_execute_ - (n_from_previous_ - n_passed), first);
  }
  n_from_chunk_ = end_of_chunk_ - first;
  has_previous_ = true;
}

// Action i of the chunk is for the same time as action n_passed + i of the previous one.
void ActionQueue::AverageWithPrevious() {
  std::ranges::fill(n_plans_, std::size_t{1});
  if (!has_previous_) return;
  const auto n_passed =
      static_cast<std::size_t>(next_of_previous_ + (starts_on_arrival_ ? n_expected_ : 0));
  for (std::size_t i = 0; n_passed + i < n_plans_.size(); ++i) {
    n_plans_[i] += previous_n_plans_[n_passed + i];
    const double share = shares_[n_plans_[i] - 1];
    for (std::size_t d = 0; d < action_dim_; ++d) {
      float& action = chunk_[i * action_dim_ + d];
      const double mean = previous_[(n_passed + i) * action_dim_ + d];
      action = static_cast<float>(mean + share * (action - mean));
    }
  }
}

void ActionQueue::Abandon() {
  std::swap(chunk_, previous_);
  std::swap(n_plans_, previous_n_plans_);
  end_of_chunk_ = std::min(next_of_previous_ + n_from_previous_ + 1, n_action_steps_);
  n_from_previous_ = 0;
  n_from_chunk_ = 0;
}

int ActionQueue::place(int i) const {
  // fresh actions end at end_of_chunk_, with the last step
  const int index = is_stale(i) ? next_of_previous_ + i : end_of_chunk_ - n_steps() + i;
  return std::min(index, n_action_steps_ - 1);
}

std::span<const float> ActionQueue::action(int i) const {
  const std::vector<float>& chunk = is_stale(i) ? previous_ : chunk_;
  return std::span(chunk).subspan(static_cast<std::size_t>(place(i)) * action_dim_, action_dim_);
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
