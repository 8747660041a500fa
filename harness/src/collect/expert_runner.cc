#include "collect/expert_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dp_bench/error.h"
#include "dp_bench/random.h"

namespace dp_bench {

ExpertRunner::ExpertRunner(const ExpertPlan& plan)
    : plan_(plan), action_(plan.env.action_low.size()), executed_(action_.size()) {
  for (const KeySpec& key : plan.env.shape_meta.obs) obs_.emplace_back(key.ByteSize());
  for (std::vector<std::byte>& buffer : obs_) obs_buffers_.emplace_back(buffer);
}

std::optional<ExpertEpisode> ExpertRunner::Run(std::uint64_t seed) {
  ExpertEpisode episode{.seed = seed, .steps = ReplayEpisode(plan_.keys)};
  try {
    if (!Play(&episode)) return std::nullopt;
    episode.is_whole = true;
  } catch (const std::exception& error) {
    episode.success = false;
    episode.failure = fmt::format("step {}: {}", episode.steps.n_steps(), error.what());
    env_.reset();  // its state is unknown
  }
  return episode;
}

// False when it was stopped.
bool ExpertRunner::Play(ExpertEpisode* episode) {
  if (env_ == nullptr) env_ = plan_.env_factory();
  Expert& expert = *env_->expert();
  env_->Reset(episode->seed);
  expert.Begin(episode->seed);
  for (int step = 0; step < plan_.env.max_steps; ++step) {
    if (plan_.stop != nullptr && *plan_.stop) return false;
    env_->Observe(obs_buffers_);
    expert.Act(action_);
    Record(&episode->steps);
    const StepResult result = env_->Step(Perturb(episode->seed, step));
    if (result.success) {
      episode->success = true;
      return true;
    }
    if (result.terminated) {
      episode->failure = fmt::format("the episode ended at step {} without success", step + 1);
      return true;
    }
  }
  episode->failure = fmt::format("no success within {} steps", plan_.env.max_steps);
  return true;
}

void ExpertRunner::Record(ReplayEpisode* steps) {
  for (std::size_t i = 0; i < action_.size(); ++i) {
    if (std::isfinite(action_[i])) continue;
    throw Error(ErrorCode::kNumeric,
                fmt::format("the expert's action is {} in dimension {}", action_[i], i));
  }
  std::vector<std::span<const std::byte>> values(obs_buffers_.begin(), obs_buffers_.end());
  values.push_back(std::as_bytes(std::span(action_)));
  steps->Append(values);
}

std::span<const float> ExpertRunner::Perturb(std::uint64_t seed, std::int64_t step) {
  RandomStream random(seed, StreamId::kAugment, static_cast<std::uint64_t>(step));
  for (std::size_t i = 0; i < action_.size(); ++i) {
    const float noise = random.Normal() * static_cast<float>(plan_.noise_std[i]);
    executed_[i] = noise == 0.0F ? action_[i]
                                 : std::clamp(action_[i] + noise, plan_.env.action_low[i],
                                              plan_.env.action_high[i]);
  }
  return executed_;
}

}  // namespace dp_bench
