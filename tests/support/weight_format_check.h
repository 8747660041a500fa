// What holds for the plans of every network with weights of each format, and on several threads.
#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "dp_bench/policy.h"
#include "support/small_policy.h"

namespace dp_bench {

inline constexpr std::int64_t kRows = 17;  // for one to four threads

/// Plans of kRows rows with `n_threads`. The second one is returned: it has caches.
inline torch::Tensor PlanWith(Policy& policy, const TensorMap& obs, int n_threads) {
  const int n_before = at::get_num_threads();
  at::set_num_threads(n_threads);
  torch::Tensor plan;
  for (int i = 0; i < 2; ++i) {
    NoiseSource noise = NoiseOfRows(obs.begin()->second.size(0));
    plan = policy.PredictAction(obs, noise);
  }
  at::set_num_threads(n_before);
  return plan;
}

/// For SmallSpec, with every format: no bit depends on the number of threads, and thus on the
/// groups of rows. With bf16 and int8 the plan is another one, but close.
inline void CheckWeightFormats(Policy& policy) {
  torch::manual_seed(7);
  const TensorMap obs = {{"agent_pos", torch::rand({kRows, 2, 2})}};
  const torch::Tensor exact = PlanWith(policy, obs, 1);
  for (const int n : {2, 4}) EXPECT_TRUE(torch::equal(PlanWith(policy, obs, n), exact)) << n;

  for (const auto& [format, limit] :
       {std::pair{WeightFormat::kBf16, 0.05}, std::pair{WeightFormat::kInt8, 0.1}}) {
    policy.SetWeightFormat(format);
    const torch::Tensor rounded = PlanWith(policy, obs, 1);
    for (const int n : {2, 4}) EXPECT_TRUE(torch::equal(PlanWith(policy, obs, n), rounded)) << n;
    EXPECT_FALSE(torch::equal(rounded, exact));
    const double error = (rounded - exact).norm().item<double>() / exact.norm().item<double>();
    EXPECT_LT(error, limit);
  }

  policy.SetWeightFormat(WeightFormat::kFloat32);
  EXPECT_TRUE(torch::equal(PlanWith(policy, obs, 2), exact));
}

}  // namespace dp_bench
