#include "task/training_rig.h"

#include <ATen/record_function.h>

#include <utility>

#include "core/errors.h"
#include "train/batches.h"
#include "train/fit_normalizer.h"

namespace dp_bench::task {
namespace {

data::BatchLoaderOptions FullBatches(const Policy& policy, const train::DataLoaderConfig& config) {
  data::BatchLoaderOptions options = train::LoaderOptions(policy, config);
  options.drop_last = true;
  return options;
}

}  // namespace

TrainingRig::TrainingRig(const Experiment& experiment, const Dataset& dataset)
    : parallel_(alone_),
      loading_(experiment.loading()),
      step_(std::make_unique<train::TrainStep>(
          train::TrainStep::Parts{.config = experiment.config(),
                                  .create_policy = [&] { return experiment.CreatePolicy(); },
                                  .device = experiment.device(),
                                  .parallel = parallel_,
                                  .grad_scaler = grad_scaler_})) {
  data::RequireSequences(dataset, experiment.spec().horizons);
  data::SequenceSampler sampler = data::MakeTrainingSampler(dataset, experiment.spec().horizons);
  if (sampler.size() < loading_.batch_size) {
    throw DataError(
        "the dataset has {} sequences, less than one batch of {}; lower dataloader.batch_size",
        sampler.size(), loading_.batch_size);
  }
  loader_ = std::make_unique<data::BatchLoader>(dataset, std::move(sampler),
                                                FullBatches(policy(), loading_));
  policy().SetNormalizer(train::FitNormalizer(
      dataset, experiment.spec().shape_meta,
      train::NormalizerConfig::FromConfig(experiment.config().Sub("normalizer"))));
  step_->StartGradScaler();
  policy().module().train();
}

void TrainingRig::NextBatch(data::HostBatch* host) {
  if (epoch_ == 0) loader_->StartEpoch(epoch_++);
  while (!loader_->Next(host)) loader_->StartEpoch(epoch_++);
}

void TrainingRig::Step(train::StepTimer* timer) {
  RECORD_USER_SCOPE("train step");
  timer->Start();
  {
    RECORD_USER_SCOPE(train::NameOf(train::StepPhase::kDataWait));
    NextBatch(&host_);
    timer->Lap(train::StepPhase::kDataWait);
  }
  const std::int64_t window = training().gradient_accumulate_every;
  const train::StepPlace place = {.global_step = n_steps_,
                                  .window_rows = window * loading_.batch_size,
                                  .ends_window = (n_steps_ + 1) % window == 0,
                                  .lr = step_->optimizer().config().lr};
  step_->Run(host_, place, *timer);
  ++n_steps_;
}

}  // namespace dp_bench::task
