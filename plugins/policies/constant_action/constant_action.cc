// The smallest policy: one learnable action for all observations. It is the template for new
// policies and the policy of many tests. PolicyBase does what most policies share. Read it from top
// to bottom: it shows what a policy must do.
#include <torch/types.h>

#include "dp_bench/plugin.h"
#include "dp_bench/policy/policy_base.h"

namespace dp_bench::constant_action {
namespace {

using torch::Tensor;

class ConstantActionPolicy final : public policy::PolicyBase {
 public:
  // `params` is the policy.params object of the run's config. Read every key here, with its default
  // and what it means: a key that you do not read is reported to the user as a typo.
  ConstantActionPolicy(const Config& params, const PolicySpec& spec)
      : PolicyBase("constant_action", spec) {
    const double initial = params.GetInRange("initial_naction", 0.0, -1.0, 1.0,
                                             "normalized action before the training");

    // registered parameters are trained, averaged by EMA and saved under these names
    naction_ = module().register_parameter("naction", torch::full({action_dim()}, initial));
  }

 private:
  LossOutput BatchLoss(const Batch& batch, NoiseSource& /*noise*/) override {
    // networks use normalized values; batches are in raw units
    const Tensor target = normalizer().Normalize("action", batch.action);  // [B, T, Da]
    const Tensor loss = torch::mse_loss(naction_.expand_as(target), target);
    return {.loss = loss, .parts = {{"naction_norm", naction_.detach().norm()}}};
  }

  Tensor PredictSequence(const TensorMap& /*obs*/, NoiseSource& noise) override {
    // the same action for every row and step
    return naction_.expand({noise.batch_size(), spec().horizons.horizon, -1});
  }

  Tensor naction_;  // [Da], normalized
};

}  // namespace
}  // namespace dp_bench::constant_action

// The library's only export. The host finds the policy by this name.
DPB_EXPORT_PLUGIN(
    dp_bench::Policy, "constant_action", "1.0.0",
    (&dp_bench::CreateInstance<dp_bench::Policy, dp_bench::constant_action::ConstantActionPolicy,
                               dp_bench::Config, dp_bench::PolicySpec>))
