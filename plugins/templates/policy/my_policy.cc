// Behaviour cloning: a small network maps low-dimensional observations to an action chunk. Replace
// it by your own method. The contract is in dp_bench/policy.h; PolicyBase does what most policies
// share, and building blocks are in dp_bench/policy/.
#include <torch/nn/modules/linear.h>

#include <memory>
#include <vector>

#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "dp_bench/policy.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/policy/policy_base.h"

namespace {

using dp_bench::Error;
using dp_bench::ErrorCode;
using torch::Tensor;

class MyPolicy final : public dp_bench::policy::PolicyBase {
 public:
  // Read every param here, with its default and meaning. Refuse observations that you cannot use.
  MyPolicy(const dp_bench::Config& params, const dp_bench::PolicySpec& spec)
      : PolicyBase("my_policy", spec) {
    const std::int64_t width =
        params.GetInRange("width", std::int64_t{256}, 1, 65536, "units of each hidden layer");
    std::int64_t n_features = 0;
    for (const dp_bench::KeySpec& key : spec.shape_meta.obs) {
      if (key.type != dp_bench::KeyType::kLowDim) {
        throw Error(ErrorCode::kConfig, "my_policy reads numbers only; remove the image '" +
                                            key.name +
                                            "' from shape_meta.obs, or use another policy");
      }
      n_features += key.NumElements() * spec.horizons.n_obs_steps;
    }
    const std::int64_t n_outputs = spec.horizons.horizon * action_dim();
    in_ = module().register_module("in", torch::nn::Linear(n_features, width));
    hidden_ = module().register_module("hidden", torch::nn::Linear(width, width));
    out_ = module().register_module("out", torch::nn::Linear(width, n_outputs));
  }

 private:
  // The batch is in raw units, and its shapes are checked.
  dp_bench::LossOutput BatchLoss(const dp_bench::Batch& batch,
                                 dp_bench::NoiseSource& noise) override {
    const Tensor target = normalizer().Normalize("action", batch.action);  // [B, T, Da]
    return {.loss = torch::mse_loss(PredictSequence(batch.obs, noise), target), .parts = {}};
  }

  // Normalized actions [B, T, Da]. PolicyBase returns the steps to execute, in raw units.
  Tensor PredictSequence(const dp_bench::TensorMap& obs,
                         dp_bench::NoiseSource& /*noise*/) override {
    std::vector<Tensor> features;
    for (const dp_bench::KeySpec& key : spec().shape_meta.obs) {
      features.push_back(normalizer().Normalize(key.name, obs.at(key.name)).flatten(1));
    }
    // ApplyLinear gives a row the same bits in every batch
    Tensor x = torch::relu(dp_bench::policy::ApplyLinear(in_, torch::cat(features, 1)));
    x = torch::relu(dp_bench::policy::ApplyLinear(hidden_, x));
    return dp_bench::policy::ApplyLinear(out_, x).view({x.size(0), spec().horizons.horizon, -1});
  }

  torch::nn::Linear in_{nullptr};
  torch::nn::Linear hidden_{nullptr};
  torch::nn::Linear out_{nullptr};
};

std::unique_ptr<dp_bench::Policy> Create(const dp_bench::Config& params,
                                         const dp_bench::PolicySpec& spec) {
  return std::make_unique<MyPolicy>(params, spec);
}

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Policy, "my_policy", "0.1.0", &Create)
