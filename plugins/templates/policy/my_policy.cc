// Behaviour cloning: a small network maps low-dimensional observations to an action chunk. Replace
// it by your own method; the contract is in dp_bench/policy.h, and building blocks are in
// dp_bench/policy/.
#include <torch/nn/modules/linear.h>

#include <memory>
#include <optional>
#include <vector>

#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "dp_bench/policy.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/policy/networks/obs_check.h"

namespace {

using dp_bench::Error;
using dp_bench::ErrorCode;
using torch::Tensor;

class MyPolicy final : public dp_bench::Policy {
 public:
  // Read every param here, with its default and meaning. Refuse observations that you cannot use.
  MyPolicy(const dp_bench::Config& params, const dp_bench::PolicySpec& spec) : spec_(spec) {
    const std::int64_t width =
        params.GetInRange("width", std::int64_t{256}, 1, 65536, "units of each hidden layer");
    std::int64_t n_features = 0;
    for (const dp_bench::KeySpec& key : spec.shape_meta.obs) {
      if (key.type != dp_bench::KeyType::kLowDim) {
        throw Error(ErrorCode::kConfig, "my_policy reads numbers only; remove the picture '" +
                                            key.name +
                                            "' from shape_meta.obs, or use another policy");
      }
      n_features += key.NumElements() * spec.horizons.n_obs_steps;
    }
    const std::int64_t n_outputs = spec.horizons.horizon * spec.shape_meta.action_dim();
    in_ = module_->register_module("in", torch::nn::Linear(n_features, width));
    hidden_ = module_->register_module("hidden", torch::nn::Linear(width, width));
    out_ = module_->register_module("out", torch::nn::Linear(width, n_outputs));
  }

  const dp_bench::PolicySpec& spec() const override { return spec_; }
  torch::nn::Module& module() override { return *module_; }

  void SetNormalizer(const dp_bench::Normalizer& normalizer) override {
    for (const dp_bench::KeySpec& key : spec_.shape_meta.obs) RequireField(normalizer, key.name);
    RequireField(normalizer, "action");
    normalizer_ = normalizer;
    normalizer_->To(module_->parameters().front().device());
  }

  dp_bench::LossOutput ComputeLoss(const dp_bench::Batch& batch,
                                   dp_bench::NoiseSource& noise) override {
    RequireNormalizer();
    dp_bench::policy::CheckBatch(batch, spec_, spec_.horizons.n_obs_steps, noise);
    const Tensor target = normalizer_->Normalize("action", batch.action);  // [B, T, Da]
    return {.loss = torch::mse_loss(Predict(batch.obs), target), .parts = {}};
  }

  Tensor PredictAction(const dp_bench::TensorMap& obs, dp_bench::NoiseSource& /*noise*/) override {
    const torch::NoGradGuard no_grad;
    RequireNormalizer();
    dp_bench::policy::CheckObs(obs, spec_, spec_.horizons.n_obs_steps);
    // the prediction starts at the oldest observation; the current step is index To - 1
    const Tensor sequence = normalizer_->Unnormalize("action", Predict(obs));
    return sequence.narrow(1, spec_.horizons.n_obs_steps - 1, spec_.horizons.n_action_steps)
        .contiguous();
  }

 private:
  // Normalized actions [B, T, Da].
  Tensor Predict(const dp_bench::TensorMap& obs) {
    std::vector<Tensor> features;
    for (const dp_bench::KeySpec& key : spec_.shape_meta.obs) {
      features.push_back(normalizer_->Normalize(key.name, obs.at(key.name)).flatten(1));
    }
    // ApplyLinear gives a row the same bits in every batch
    Tensor x = torch::relu(dp_bench::policy::ApplyLinear(in_, torch::cat(features, 1)));
    x = torch::relu(dp_bench::policy::ApplyLinear(hidden_, x));
    return dp_bench::policy::ApplyLinear(out_, x).view({x.size(0), spec_.horizons.horizon, -1});
  }

  static void RequireField(const dp_bench::Normalizer& normalizer, const std::string& key) {
    if (normalizer.fields().contains(key)) return;
    throw Error(ErrorCode::kData,
                "the normalizer has no statistics for '" + key + "' of shape_meta");
  }
  void RequireNormalizer() const {
    if (!normalizer_)
      throw Error(ErrorCode::kData, "my_policy has no normalizer; call SetNormalizer first");
  }

  dp_bench::PolicySpec spec_;
  std::optional<dp_bench::Normalizer> normalizer_;
  std::shared_ptr<torch::nn::Module> module_ = std::make_shared<torch::nn::Module>("my_policy");
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
