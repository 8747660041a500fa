// What the denoisers must do alike: the loops of the CPU against LibTorch's operators, which
// float64 uses; sampling against training; rows against their batch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dp_bench/policy/networks/denoiser.h"
#include "harness/policy/gradient_check.h"

namespace dp_bench::policy {

inline constexpr std::int64_t kSampleDim = 2;  // Da

struct MadeDenoiser {
  std::shared_ptr<torch::nn::Module> module = std::make_shared<torch::nn::Module>();
  std::shared_ptr<Denoiser> net;

  torch::Tensor Forward(const torch::Tensor& sample, const torch::Tensor& times,
                        const torch::Tensor& cond) const {
    return net->Forward(sample, times, cond, /*noise=*/nullptr);
  }
};

/// T 16, To 2. `make`: MakeUnetDenoiser or MakeTransformerDenoiser. Do is 0 with inpainting. The
/// last `task_dim` features are an embedding of the task.
template <class Make>
MadeDenoiser MakeDenoiserFrom(const Make& make, const std::string& params,
                              std::int64_t obs_feature_dim, bool inpaints_obs = false,
                              std::int64_t task_dim = 0) {
  torch::manual_seed(3);
  const PolicySpec spec = {.horizons = {.horizon = 16, .n_obs_steps = 2, .n_action_steps = 8}};
  MadeDenoiser made;
  made.net = make(Config::FromJson(params), spec,
                  {.inpaints_obs = inpaints_obs,
                   .sample = kSampleDim,
                   .cond = obs_feature_dim,
                   .task = task_dim},
                  *made.module);
  return made;
}

struct DenoiserInputs {
  torch::Tensor sample;
  torch::Tensor times;
  torch::Tensor cond;
};

inline DenoiserInputs MakeDenoiserInputs(std::int64_t batch, std::int64_t obs_feature_dim) {
  torch::manual_seed(4);
  return {torch::randn({batch, 16, kSampleDim}), torch::randint(100, {batch}, torch::kInt64),
          torch::randn({batch, 2, obs_feature_dim})};
}

/// Leaves the network in float64.
inline void ExpectFloatEqualsDouble(const MadeDenoiser& made, const DenoiserInputs& in) {
  const std::vector<torch::Tensor> parameters = made.module->parameters();
  const torch::Tensor weights =
      torch::linspace(-1.0, 1.5, in.sample.numel()).view(in.sample.sizes());
  const torch::Tensor found = made.Forward(in.sample, in.times, in.cond);
  const auto grads = torch::autograd::grad({(found * weights).sum()}, parameters);
  made.module->to(torch::kFloat64);
  const torch::Tensor expected = made.Forward(
      in.sample.to(torch::kFloat64), in.times.to(torch::kFloat64), in.cond.to(torch::kFloat64));
  EXPECT_LE(RelativeDifference(found, expected), kRounding);
  const auto expected_grads =
      torch::autograd::grad({(expected * weights).sum()}, made.module->parameters());
  for (std::size_t i = 0; i < grads.size(); ++i) {
    EXPECT_LE(RelativeDifference(grads[i], expected_grads[i]), kRounding) << "parameter " << i;
  }
}

/// Sampling at each of several times gives what training gives there. Needs NoGradGuard.
inline void ExpectConditionEqualsForward(const MadeDenoiser& made, const DenoiserInputs& in) {
  const ConditionedDenoiser predict = made.net->Condition({90, 30, 0}, in.cond);
  for (std::int64_t step = 0; const std::int64_t t : {90, 30, 0}) {
    const torch::Tensor times = torch::full({in.sample.size(0)}, t, torch::kInt64);
    EXPECT_LE(
        RelativeDifference(predict(in.sample, step++), made.Forward(in.sample, times, in.cond)),
        kRounding)
        << "batch " << in.sample.size(0) << ", timestep " << t;
  }
}

/// A shuffled batch must give the shuffled result, bit for bit, and with `also_alone` a batch of
/// one the row of the whole batch. Needs NoGradGuard.
inline void ExpectIndependentRows(const MadeDenoiser& made, std::int64_t obs_feature_dim,
                                  bool also_alone) {
  for (const std::int64_t batch : {2, 3, 7, 16, 50}) {
    const DenoiserInputs in = MakeDenoiserInputs(batch, obs_feature_dim);
    const auto plan = [&](const torch::Tensor& sample, const torch::Tensor& cond) {
      return made.net->Condition({50}, cond)(sample, 0);
    };
    const torch::Tensor order = torch::randperm(batch, torch::kInt64);
    const torch::Tensor all = plan(in.sample, in.cond);
    EXPECT_TRUE(torch::equal(plan(in.sample.index_select(0, order), in.cond.index_select(0, order)),
                             all.index_select(0, order)))
        << "batch " << batch;
    if (!also_alone) continue;
    EXPECT_TRUE(
        torch::equal(plan(in.sample.narrow(0, 1, 1), in.cond.narrow(0, 1, 1)), all.narrow(0, 1, 1)))
        << "row 1 of a batch of " << batch;
  }
}

/// Needs NoGradGuard.
inline void ExpectDropCachesReadsTheWeightsAgain(const MadeDenoiser& made,
                                                 const DenoiserInputs& in) {
  made.net->Condition({90, 30, 0}, in.cond)(in.sample, 0);
  // no new version
  for (torch::Tensor& parameter : made.module->parameters()) parameter.data().mul_(1.5);
  made.net->DropCaches();
  ExpectConditionEqualsForward(made, in);
}

}  // namespace dp_bench::policy
