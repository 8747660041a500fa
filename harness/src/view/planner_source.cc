#include "view/planner_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dp_bench/error.h"
#include "rollout/shape_match.h"

namespace dp_bench::view {

PlannerSource::PlannerSource(Env& env, rollout::ChunkPlanner& planner, const ShapeMeta& shape_meta,
                             const Horizons& horizons)
    : env_(env),
      planner_(planner),
      horizons_(horizons),
      obs_index_of_env_(rollout::MatchObsKeys(env.spec().shape_meta, shape_meta)),
      seen_(env.spec()),
      history_(shape_meta.obs, horizons.n_obs_steps),
      obs_(rollout::MakeObsBatch(shape_meta.obs, planner.batch_size(), horizons.n_obs_steps)) {
  chunks_.resize(static_cast<std::size_t>(planner.batch_size() * horizons.n_action_steps *
                                          shape_meta.action_dim()));
}

void PlannerSource::Begin(std::uint64_t episode) {
  row_ = {.seed = episode, .env_step = 0};
  next_ = horizons_.n_action_steps;
}

Supply PlannerSource::Next(std::span<float> action) {
  Observe();
  if (next_ == horizons_.n_action_steps) Plan();

  const auto offset = static_cast<std::size_t>(next_) * action.size();
  std::ranges::copy(std::span<const float>(chunks_).subspan(offset, action.size()), action.begin());
  ++next_;
  ++row_.env_step;
  return Supply::kAction;
}

void PlannerSource::Observe() {
  seen_.Observe(env_);
  for (std::size_t i = 0; i < obs_index_of_env_.size(); ++i) {
    const int key = obs_index_of_env_[i];
    if (key >= 0) std::ranges::copy(seen_[i], history_.Next(key).begin());
  }
  if (row_.env_step == 0) {
    history_.PushAsFirst();
  } else {
    history_.Push();
  }
}

void PlannerSource::Plan() {
  const auto n_rows = static_cast<std::size_t>(planner_.batch_size());
  for (std::size_t row = 0; row < n_rows; ++row) history_.CopyWindows(row, &obs_);
  planner_.Plan(obs_, std::span(&row_, 1), chunks_);

  const auto chunk = std::span<const float>(chunks_).first(chunks_.size() / n_rows);
  if (!std::ranges::all_of(chunk, [](float value) { return std::isfinite(value); })) {
    throw Error(ErrorCode::kNumeric,
                fmt::format("the policy planned an action that is not finite, at step {} of seed "
                            "{}",
                            row_.env_step, row_.seed));
  }
  next_ = 0;
}

}  // namespace dp_bench::view
