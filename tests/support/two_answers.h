// A task that any policy for SmallSpec learns in seconds: two observations, two opposite action
// sequences.
#pragma once

#include "dp_bench/policy.h"
#include "support/small_policy.h"
#include "train/optimizer.h"

namespace dp_bench {

/// Trains `policy` on one batch of 16 rows.
inline void LearnByHeart(Policy& policy, const Batch& batch, std::uint64_t n_steps,
                         double rate = 2e-3, double weight_decay = 1e-4) {
  train::Optimizer optimizer(
      {}, train::MakeParameterGroups(policy.module(), {.weight_decay = weight_decay}));
  for (std::uint64_t step = 0; step < n_steps; ++step) {
    NoiseSource noise = NoiseOfRows(16, step);
    optimizer.ZeroGrad();
    policy.ComputeLoss(batch, noise).loss.backward();
    optimizer.Step(rate);
  }
  policy.WeightsChanged();
}

struct TwoAnswers {
  explicit TwoAnswers(const Policy& policy)
      : agent_pos(torch::zeros({2, policy.n_train_obs_steps(), 2})) {
    agent_pos[0].fill_(-0.8);
    agent_pos[1].fill_(0.8);
  }

  /// 16 rows.
  Batch MakeBatch() const {
    return {.obs = {{"agent_pos", agent_pos.repeat({8, 1, 1})}},
            .action = action.repeat({8, 1, 1}),
            .is_pad = torch::zeros({16, 8}, torch::kBool)};
  }

  /// The mean error of what the policy plans for both.
  double ErrorOf(Policy& policy) const {
    NoiseSource noise = NoiseOfRows(2);
    const torch::Tensor predicted =
        policy.PredictAction({{"agent_pos", agent_pos.slice(1, 0, 2)}}, noise);
    // the chunk starts at the current step, n_obs_steps - 1
    return (predicted - action.narrow(1, 1, 4)).abs().mean().item<double>();
  }

  torch::Tensor agent_pos;
  torch::Tensor ramp = torch::linspace(-0.5, 0.5, 8).view({8, 1}).expand({8, 2});
  torch::Tensor action = torch::stack({ramp, -ramp});
};

}  // namespace dp_bench
