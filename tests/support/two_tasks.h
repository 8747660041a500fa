// Two tasks with equal observations and opposite action sequences: a policy must read the task key.
#pragma once

#include "dp_bench/policy.h"
#include "support/small_policy.h"
#include "support/two_answers.h"

namespace dp_bench {

/// SmallSpec with a task key [2].
inline PolicySpec TwoTaskSpec() {
  PolicySpec spec = SmallSpec();
  spec.shape_meta.obs.push_back({.name = "task", .type = KeyType::kTask, .shape = {2}});
  return spec;
}

/// Trains `policy`, made for TwoTaskSpec, on both tasks. Returns the mean error of what it then
/// plans for them.
inline double ErrorAfterTwoTasks(Policy& policy, std::uint64_t n_steps) {
  Normalizer::Fields fields = SmallNormalizer().fields();
  fields.insert(train::FitKey("task", {.min = {0, 0}, .max = {1, 1}}, NormalizeMode::kIdentity));
  policy.SetNormalizer(Normalizer(std::move(fields)));
  const torch::Tensor task = torch::eye(2).unsqueeze(1).expand({2, 2, 2});  // [task, To, 2]
  Batch batch = TwoAnswers(policy).MakeBatch();
  batch.obs["agent_pos"] = torch::zeros({16, 2, 2});
  batch.obs["task"] = task.repeat({8, 1, 1});
  LearnByHeart(policy, batch, n_steps);
  NoiseSource noise = NoiseOfRows(2);
  const torch::Tensor predicted = policy.PredictAction(
      {{"agent_pos", torch::zeros({2, 2, 2})}, {"task", task.contiguous()}}, noise);
  return (predicted - batch.action.slice(0, 0, 2).narrow(1, 1, 4)).abs().mean().item<double>();
}

}  // namespace dp_bench
