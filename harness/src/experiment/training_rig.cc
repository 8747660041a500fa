// See training_rig.h.
#include "experiment/training_rig.h"

#include <ATen/record_function.h>
#include <fmt/format.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/device.h"
#include "dp_bench/error.h"
#include "train/autocast.h"
#include "train/device_batch.h"
#include "train/fit_normalizer.h"

namespace dp_bench::experiment {
namespace {

data::BatchLoaderOptions LoaderOptions(const PolicySpec& spec,
                                       const train::DataLoaderConfig& config) {
  data::BatchLoaderOptions options = {.batch_size = config.batch_size,
                                      .drop_last = true,
                                      .n_obs_steps = spec.horizons.n_obs_steps,
                                      .n_threads = config.num_workers};
  for (const KeySpec& key : spec.shape_meta.obs) options.keys.push_back(key.name);
  return options;
}

void Phase(train::StepPhase phase, torch::Device device, train::StepTimer* timer,
           const std::function<void()>& work) {
  RECORD_USER_SCOPE(NameOf(phase));
  work();
  core::Synchronize(device);
  timer->Lap(phase);
}

}  // namespace

const char* NameOf(train::StepPhase phase) {
  switch (phase) {
    case train::StepPhase::kDataWait:
      return "data";
    case train::StepPhase::kForward:
      return "forward";
    case train::StepPhase::kBackward:
      return "backward";
    case train::StepPhase::kOptimizer:
      return "optimizer";
    case train::StepPhase::kEma:
      return "EMA";
  }
  return "";
}

TrainingRig::TrainingRig(const Experiment& experiment, const Dataset& dataset)
    : shape_meta_(experiment.spec().shape_meta),
      training_(train::TrainingConfig::FromConfig(experiment.config().Sub("training"))),
      loading_(train::DataLoaderConfig::FromConfig(experiment.config().Sub("dataloader"), true)),
      device_(experiment.device()),
      policy_(experiment.CreatePolicy()),
      ema_policy_(experiment.CreatePolicy()),
      loader_(std::make_unique<data::BatchLoader>(
          dataset, data::MakeTrainingSampler(dataset, experiment.spec().horizons),
          LoaderOptions(experiment.spec(), loading_))) {
  const Config& config = experiment.config();
  data::RequireSequences(dataset, experiment.spec().horizons);
  if (loader_->num_batches() == 0) {
    throw Error(ErrorCode::kData,
                fmt::format("the dataset holds {} sequences, less than one batch of {}; lower "
                            "dataloader.batch_size",
                            loader_->sampler().size(), loading_.batch_size));
  }
  policy_->module().to(device_);
  ema_policy_->module().to(device_);
  policy_->SetNormalizer(train::FitNormalizer(
      dataset, shape_meta_, train::NormalizerConfig::FromConfig(config.Sub("normalizer"))));
  const auto optimizer = train::OptimizerConfig::FromConfig(config.Sub("optimizer"));
  train::FreezeParameters(policy_->module(), optimizer);
  optimizer_ = std::make_unique<train::AdamW>(
      optimizer, train::MakeParameterGroups(policy_->module(), optimizer));
  ema_ = std::make_unique<train::Ema>(train::EmaConfig::FromConfig(config.Sub("ema")),
                                      policy_->module(), ema_policy_->module());
  policy_->module().train();
}

void TrainingRig::NextBatch(data::HostBatch* host) {
  if (epoch_ == 0) loader_->StartEpoch(epoch_++);
  while (!loader_->Next(host)) loader_->StartEpoch(epoch_++);
}

void TrainingRig::Step(train::StepTimer* timer) {
  RECORD_USER_SCOPE("train step");
  timer->Start();
  Phase(train::StepPhase::kDataWait, device_, timer, [&] { NextBatch(&host_); });
  torch::Tensor loss;
  Phase(train::StepPhase::kForward, device_, timer, [&] {
    loss = Loss(train::ToBatch(host_, shape_meta_, device_));
    loss.item<double>();  // as in a training, which logs it
  });
  Phase(train::StepPhase::kBackward, device_, timer, [&] { loss.backward(); });
  Phase(train::StepPhase::kOptimizer, device_, timer, [&] { UpdateWeights(); });
  Phase(train::StepPhase::kEma, device_, timer, [&] {
    if (training_.use_ema) ema_->Update();
  });
  policy_->WeightsChanged();
}

void TrainingRig::TrainOn(const Batch& batch) {
  Loss(batch).backward();
  UpdateWeights();
  if (training_.use_ema) ema_->Update();
  policy_->WeightsChanged();
}

torch::Tensor TrainingRig::Loss(const Batch& batch) {
  NoiseSource noise =
      train::BatchNoise(0, train::NoisePurpose::kTraining, step_++, batch.action.size(0));
  const train::Autocast autocast(device_.type(), training_.mixed_precision);
  return policy_->ComputeLoss(batch, noise).loss;
}

void TrainingRig::UpdateWeights() {
  const double max_norm = training_.max_grad_norm > 0.0 ? training_.max_grad_norm
                                                        : std::numeric_limits<double>::infinity();
  optimizer_->ClipGradNorm(max_norm).item<double>();
  optimizer_->Step(optimizer_->config().lr);
  optimizer_->ZeroGrad();
}

}  // namespace dp_bench::experiment
