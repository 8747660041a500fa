// The binary interface of policy plugins, on top of core_layout.cc. See README.md.
#include "dp_bench/normalizer.h"
#include "dp_bench/plugin.h"
#include "dp_bench/policy.h"
#include "dp_bench/policy/networks/denoiser.h"
#include "dp_bench/policy/networks/diffusion_policy.h"
#include "dp_bench/policy/networks/transformer_layer.h"
#include "dp_bench/policy/policy_base.h"
#include "dp_bench/policy/vision/obs_encoder.h"
#include "dp_bench/policy/vision/resnet.h"
#include "dp_bench/policy/vision/vision_pipeline.h"
#include "dp_bench/tensor.h"
#include "layout.h"

using namespace dp_bench;

namespace {

void PrintPolicy() {
  DPB_TYPE(PluginEntry<Policy>);
  DPB_FIELD(PluginTraits<Policy>::Functions, create);
  DPB_TYPE(Batch);
  DPB_FIELD(Batch, obs);
  DPB_FIELD(Batch, action);
  DPB_FIELD(Batch, is_pad);
  DPB_TYPE(LossOutput);
  DPB_FIELD(LossOutput, loss);
  DPB_FIELD(LossOutput, parts);
  DPB_TYPE(Policy);
  DPB_VIRTUAL(Policy, spec);
  DPB_VIRTUAL(Policy, SetNormalizer);
  DPB_VIRTUAL(Policy, ComputeLoss);
  DPB_VIRTUAL(Policy, PredictAction);
  DPB_VIRTUAL(Policy, module);
  DPB_VIRTUAL(Policy, WeightsChanged);
  DPB_VIRTUAL(Policy, n_train_obs_steps);
  DPB_VIRTUAL(Policy, LearnFrom);
  DPB_TYPE(policy::PolicyBase);
}

void PrintBlocks() {
  DPB_TYPE(NoiseKey);
  DPB_TYPE(NoiseSource);
  DPB_TYPE(Normalizer);
  DPB_TYPE(Normalizer::Field);
  DPB_FIELD(Normalizer::Field, scale);
  DPB_FIELD(Normalizer::Field, offset);
  DPB_FIELD(Normalizer::Field, stats);
  DPB_FIELD(Normalizer::Field, mode);
  DPB_FIELD(Normalizer::Field, zero_range_dims);
  DPB_TYPE(policy::Denoiser);
  DPB_VIRTUAL(policy::Denoiser, Forward);
  DPB_VIRTUAL(policy::Denoiser, Condition);
  DPB_VIRTUAL(policy::Denoiser, DropCaches);
  DPB_VIRTUAL(policy::Denoiser, set_gradient_checkpointing);
  DPB_TYPE(policy::ObsEncoder);
  DPB_VIRTUAL(policy::ObsEncoder, feature_dim);
  DPB_VIRTUAL(policy::ObsEncoder, Encode);
  DPB_VIRTUAL(policy::ObsEncoder, set_gradient_checkpointing);
  DPB_VIRTUAL(policy::ObsEncoder, task_dim);
  DPB_TYPE(policy::VisionPipeline);
  DPB_TYPE(policy::DiffusionPolicy);
  DPB_TYPE(policy::DiffusionPolicy::Model);
  DPB_TYPE(policy::TransformerLayerConfig);
  DPB_TYPE(policy::LayerInputs);
  DPB_TYPE(policy::TransformerLayerImpl);
  DPB_TYPE(policy::ResnetConfig);
  DPB_TYPE(policy::ResnetImpl);
}

}  // namespace

int main() {
  PrintPolicy();
  PrintBlocks();
}
