#include "serve/session.h"

#include <algorithm>
#include <utility>

#include "core/errors.h"

namespace dp_bench::serve {

Session::Session(const PolicySpec& spec)
    : spec_(spec),
      input_(spec_.shape_meta.obs),
      history_(spec_.shape_meta.obs, spec_.horizons.n_obs_steps),
      queue_(spec_.horizons.n_action_steps, static_cast<std::size_t>(spec_.shape_meta.action_dim()),
             spec_.horizons.n_action_steps, spec_.horizons.temporal_ensemble_coeff) {}

void Session::Reset(std::optional<std::uint64_t> seed) {
  if (n_observed_ > 0) ++n_episodes_;
  seed_ = seed.value_or(n_episodes_);
  is_first_ = true;
  n_observed_ = 0;
  queue_.Clear();
  next_ = 0;
}

void Session::Check(const Observations& observations, std::size_t row) {
  const std::size_t n = observations.n_steps();
  const auto n_wanted = static_cast<std::size_t>(spec_.horizons.n_obs_steps);
  if (n != 1 && n != n_wanted) {
    throw ShapeError("the observation has {} steps, expected 1 or {}", n, n_wanted);
  }
  for (std::size_t step = 0; step < n; ++step) {
    input_.CopyTo(&history_, observations.At(row, step));
  }
}

void Session::Observe(const Observations& observations, std::size_t row) {
  const std::size_t n = observations.n_steps();
  is_first_ = is_first_ || n > 1;
  for (std::size_t step = 0; step < n; ++step) {
    if (n > 1) input_.CopyTo(&history_, observations.At(row, step));  // else it is there
    if (std::exchange(is_first_, false)) {
      history_.PushAsFirst();
    } else {
      history_.Push();
    }
  }
  ++n_observed_;
}

control::PlanRow Session::PlanRowFor(std::optional<std::uint64_t> seed,
                                     std::optional<std::uint64_t> step) const {
  return {.seed = seed.value_or(seed_), .env_step = step.value_or(n_observed_ - 1)};
}

std::span<const float> Session::NextAction() {
  if (!has_action()) return {};
  return queue_.action(next_++);
}

void Session::SetChunk(std::span<const float> chunk) {
  queue_.Ask(/*n_steps=*/0);
  std::ranges::copy(chunk, queue_.chunk().begin());
  queue_.Take();
  next_ = 0;
}

}  // namespace dp_bench::serve
