// Actions at random, uniform within the bounds of the env: the least that a policy must beat, and a
// way to try out an env without data.
#include "dp_bench/random.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cmath>
#include <cstdint>

#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "dp_bench/policy.h"

namespace dp_bench::random_policy {
namespace {

class RandomPolicy final : public Policy {
 public:
  RandomPolicy(const Config& /*params*/, const PolicySpec& spec) : spec_(spec) {
    const auto n_dims = static_cast<std::size_t>(spec_.shape_meta.action_dim());
    spec_.action_low.resize(n_dims, -1.0F);  // without an env, they are empty
    spec_.action_high.resize(n_dims, 1.0F);
  }

  const PolicySpec& spec() const override { return spec_; }
  void SetNormalizer(const Normalizer& /*normalizer*/) override {}
  bool is_trainable() const override { return false; }
  torch::nn::Module& module() override { return module_; }

  LossOutput ComputeLoss(const Batch& /*batch*/, NoiseSource& /*noise*/) override {
    throw Error(ErrorCode::kUsage, "the random policy cannot be trained; use eval --policy random");
  }

  // A row's actions depend on its seed and step alone.
  torch::Tensor PredictAction(const TensorMap& /*obs*/, NoiseSource& noise) override {
    const std::int64_t n_steps = spec_.horizons.n_action_steps;
    const std::int64_t n_dims = spec_.shape_meta.action_dim();
    torch::Tensor chunks = torch::empty({noise.batch_size(), n_steps, n_dims});
    auto* action = chunks.data_ptr<float>();
    for (const NoiseKey& key : noise.rows()) {
      RandomStream random(key.seed, StreamId::kPolicyNoise, key.major);
      for (std::int64_t i = 0; i < n_steps * n_dims; ++i) {
        const auto dim = static_cast<std::size_t>(i % n_dims);
        *action++ = std::lerp(spec_.action_low[dim], spec_.action_high[dim], random.Uniform());
      }
    }
    return chunks;
  }

 private:
  PolicySpec spec_;
  torch::nn::Module module_{"random"};
};

}  // namespace
}  // namespace dp_bench::random_policy

DPB_EXPORT_PLUGIN(
    dp_bench::Policy, "random", "1.0.0",
    (&dp_bench::CreateInstance<dp_bench::Policy, dp_bench::random_policy::RandomPolicy,
                               dp_bench::Config, dp_bench::PolicySpec>))
