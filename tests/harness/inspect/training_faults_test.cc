// Faults planted in the settings, the diffusion process and the log of a training are found.
// Healthy trainings raise none.
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "dp_bench/noise_scheduler.h"
#include "dp_bench/stage_trace.h"
#include "harness/inspect/planted_fault.h"

namespace dp_bench::inspect {
namespace {

/// A policy with a faulty diffusion process.
class FaultyProcess : public Policy {
 public:
  FaultyProcess(std::unique_ptr<Policy> inner, bool has_wrong_timesteps)
      : inner_(std::move(inner)), has_wrong_timesteps_(has_wrong_timesteps) {}

  const PolicySpec& spec() const override { return inner_->spec(); }
  torch::nn::Module& module() override { return inner_->module(); }
  void SetNormalizer(const Normalizer& normalizer) override {
    normalizer_ = normalizer;
    inner_->SetNormalizer(normalizer);
  }
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    return inner_->PredictAction(obs, noise);
  }
  void WeightsChanged() override { inner_->WeightsChanged(); }

  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override {
    if (!IsTracingStages()) return inner_->ComputeLoss(batch, noise);
    const NoiseScheduler scheduler((NoiseSchedulerConfig()));
    const torch::Tensor x_0 = normalizer_.Normalize("action", batch.action);
    const torch::Tensor epsilon = noise.Randn(StreamId::kTrainingNoise, x_0.sizes());
    const torch::Tensor t =
        noise.RandInt(StreamId::kDiffusionTimestep, has_wrong_timesteps_ ? 50 : 100);
    torch::Tensor x_t = scheduler.AddNoise(x_0, epsilon, t);
    if (!has_wrong_timesteps_) x_t = x_t + 0.5 * x_0;
    TraceStage("normalized action", x_0);
    TraceStage("noise", epsilon);
    TraceStage("timesteps", t);
    TraceStage("noisy action", x_t);
    TraceStage("predicted noise", epsilon);
    return {.loss = epsilon.mean(), .parts = {}};
  }

 private:
  std::unique_ptr<Policy> inner_;
  Normalizer normalizer_;
  bool has_wrong_timesteps_;
};

/// A policy whose loss depends on no parameter.
class Detached : public Policy {
 public:
  explicit Detached(std::unique_ptr<Policy> inner) : inner_(std::move(inner)) {}

  const PolicySpec& spec() const override { return inner_->spec(); }
  torch::nn::Module& module() override { return inner_->module(); }
  void SetNormalizer(const Normalizer& normalizer) override { inner_->SetNormalizer(normalizer); }
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    return inner_->PredictAction(obs, noise);
  }
  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override {
    const torch::Tensor loss = inner_->ComputeLoss(batch, noise).loss.detach();
    torch::Tensor nothing = torch::zeros({});
    for (const torch::Tensor& parameter : module().parameters()) {
      nothing = nothing + 0.0 * parameter.sum();
    }
    return {.loss = loss + nothing, .parts = {}};
  }

 private:
  std::unique_ptr<Policy> inner_;
};

void Detach(Subject& subject) {
  subject.wrap = [](std::unique_ptr<Policy> inner) {
    return std::make_unique<Detached>(std::move(inner));
  };
}

Plant Process(bool has_wrong_timesteps) {
  return [has_wrong_timesteps](Subject& subject) {
    subject.wrap = [has_wrong_timesteps](std::unique_ptr<Policy> inner) {
      return std::make_unique<FaultyProcess>(std::move(inner), has_wrong_timesteps);
    };
  };
}

void LeaveActionsAsTheyAre(Subject& subject) {
  subject.overrides = {"normalizer.action=identity"};
  for (float& value : subject.dataset.action) value *= 100.0F;
}

double NanAfter300(int step) {
  return step > 300 ? std::numeric_limits<double>::quiet_NaN() : HealthyLoss(step);
}

const std::vector<Case> kTrainingFaults = {
    {"ClippedButNotLimited", "normalizer.clip_conflict", Overrides({"normalizer.action=gaussian"})},
    {"NotNormalized", "A.input_range", LeaveActionsAsTheyAre},
    {"TimestepsOfTheLowerHalf", "B.timesteps", Process(/*has_wrong_timesteps=*/true)},
    {"WrongForwardProcess", "C.forward_process", Process(/*has_wrong_timesteps=*/false)},
    {"TooLittleNoise", "F.terminal_noise",
     Overrides({kScheduler + "beta_schedule=linear", kScheduler + "beta_end=0.02"})},
    {"WarmUpWithoutEnd", "settings.warmup", Overrides({"training.lr_warmup_steps=5000"})},
    {"EmaDecayOfOne", "settings.ema", Overrides({"ema.max_value=1.0", "ema.min_value=1.0"})},
    {"BatchLargerThanTheData", "settings.batch_size", Overrides({"dataloader.batch_size=4096"})},
    {"BatchNormInSmallBatches", "settings.batch_norm",
     Overrides({"policy.params.obs_encoder.use_group_norm=false", "dataloader.batch_size=8"}),
     true},
    {"FrozenAtRandom", "settings.frozen_at_random",
     Overrides({R"(optimizer.param_groups=[{"pattern": "cond_encoder", "frozen": true}])"})},
    {"LearningRateTimesAHundred", "learning.lr_too_high", Overrides({"optimizer.lr=0.2"})},
    {"LearningRateTooLow", "learning.lr_too_low", Overrides({"optimizer.lr=1e-6"})},
    {"LossThatDependsOnNothing", "learning.cannot_overfit", Detach},
    {"NoGradients", "learning.no_gradient", Detach},
    {"NanInTheLog", "E.loss_not_finite", Log(NanAfter300)},
    {"LossThatStays", "E.loss_does_not_fall", Log([](int) { return 1.0; })},
    {"LossThatRises", "E.loss_diverged",
     Log([](int step) { return HealthyLoss(step) + (step > 300 ? 0.3 : 0.0); })},
};

class TrainingFault : public testing::TestWithParam<Case> {};

TEST_P(TrainingFault, IsNamed) { ExpectNamed(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Planted, TrainingFault, testing::ValuesIn(kTrainingFaults), NameOf);

class HealthyTraining : public testing::TestWithParam<Case> {};

TEST_P(HealthyTraining, RaisesNoProblem) { ExpectNoProblem(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Trainings, HealthyTraining,
    testing::Values(
        Case{"AConfig", "", Nothing}, Case{"Pictures", "", Nothing, true},
        Case{"GaussianWithRoom", "",
             Overrides({"normalizer.action=gaussian", kScheduler + "clip_sample_range=5"})},
        Case{"PredictsTheSample", "", Overrides({kScheduler + "prediction_type=sample"})},
        Case{"ACheckpoint", "", Trained({})}, Case{"ALog", "", Log(HealthyLoss)}),
    NameOf);

}  // namespace
}  // namespace dp_bench::inspect
