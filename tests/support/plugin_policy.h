// The policy of the plugin whose object files a test links.
#pragma once

#include <memory>
#include <string>

#include "dp_bench/plugin.h"
#include "dp_bench/policy/networks/diffusion_policy.h"
#include "support/error_of.h"
#include "support/small_policy.h"

extern "C" const dp_bench::PluginHeader* dp_bench_plugin() noexcept;

namespace dp_bench {

inline std::unique_ptr<Policy> CreatePluginPolicy(const Config& params, const PolicySpec& spec) {
  const auto* entry = reinterpret_cast<const PluginEntry<Policy>*>(dp_bench_plugin());
  return entry->functions.create(params, spec);
}

/// The same, for a plugin that assembles a DiffusionPolicy.
inline std::unique_ptr<policy::DiffusionPolicy> CreatePluginDiffusion(const Config& params,
                                                                      const PolicySpec& spec) {
  return std::unique_ptr<policy::DiffusionPolicy>(
      &dynamic_cast<policy::DiffusionPolicy&>(*CreatePluginPolicy(params, spec).release()));
}

/// The same, with equal weights each time and a normalizer.
inline std::unique_ptr<policy::DiffusionPolicy> CreateSmallDiffusion(
    const std::string& params, const PolicySpec& spec = SmallSpec(),
    const Normalizer& normalizer = SmallNormalizer()) {
  torch::manual_seed(5);
  auto policy = CreatePluginDiffusion(Config::FromJson(params), spec);
  policy->SetNormalizer(normalizer);
  return policy;
}

/// A training step gives every parameter a gradient, and a plan has the shape of SmallSpec's.
inline void ExpectTrainsAndPlans(Policy& policy, const Batch& batch, const TensorMap& obs) {
  NoiseSource noise = NoiseOfRows(batch.action.size(0));
  policy.ComputeLoss(batch, noise).loss.backward();
  for (const auto& item : policy.module().named_parameters()) {
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
  }
  EXPECT_EQ(policy.PredictAction(obs, noise).sizes(),
            torch::IntArrayRef({batch.action.size(0), 4, 2}));
}

/// What the plugin says about wrong params.
inline std::string ConfigErrorOf(const std::string& params, const PolicySpec& spec = SmallSpec()) {
  return MessageOf(ErrorCode::kConfig,
                   [&] { CreatePluginPolicy(Config::FromJson(params, "policy.json"), spec); });
}

}  // namespace dp_bench
