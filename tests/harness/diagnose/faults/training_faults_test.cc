// Faults planted in the settings, the diffusion process and the log of a training are found.
// Healthy trainings raise none.
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "dp_bench/stage_trace.h"
#include "harness/diagnose/faults/planted_fault.h"
#include "policy/noise_scheduler.h"

namespace dp_bench::diagnose {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

enum class ProcessFault { kTimesteps, kForwardProcess, kTables, kNarrowPrediction };

/// A policy with a faulty diffusion process.
class FaultyProcess : public ForwardingPolicy {
 public:
  FaultyProcess(std::unique_ptr<Policy> inner, ProcessFault fault)
      : ForwardingPolicy(std::move(inner)), fault_(fault) {}

  void SetNormalizer(const Normalizer& normalizer) override {
    normalizer_ = normalizer;
    ForwardingPolicy::SetNormalizer(normalizer);
  }

  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override {
    if (!IsTracingStages()) return ForwardingPolicy::ComputeLoss(batch, noise);
    NoiseSchedulerConfig config;
    if (fault_ == ProcessFault::kTables) config.beta_schedule = BetaSchedule::kScaledLinear;
    const NoiseScheduler scheduler(config);
    const torch::Tensor x_0 = normalizer_.Normalize("action", batch.action);
    const torch::Tensor epsilon = noise.Randn(StreamId::kTrainingNoise, x_0.sizes());
    const torch::Tensor t =
        noise.RandInt(StreamId::kDiffusionTimestep, fault_ == ProcessFault::kTimesteps ? 50 : 100);
    torch::Tensor x_t = scheduler.AddNoise(x_0, epsilon, t);  // notes its tables
    torch::Tensor prediction = epsilon;
    if (fault_ == ProcessFault::kForwardProcess) x_t = x_t + 0.5 * x_0;
    if (fault_ == ProcessFault::kNarrowPrediction) {
      // the noise that leaves 0.3 x_0 of x_t
      const torch::Tensor share = scheduler.AddNoise(torch::ones_like(x_0), 0.0 * x_0, t);
      prediction = epsilon + 0.7 * share / (1.0 - share.square()).sqrt() * x_0;
    }
    TraceStage("normalized action", x_0);
    TraceStage("noise", epsilon);
    TraceStage("timesteps", t);
    TraceStage("noisy action", x_t);
    TraceStage("predicted noise", prediction);
    return {.loss = epsilon.mean(), .parts = {}};
  }

 private:
  Normalizer normalizer_;
  ProcessFault fault_;
};

/// A policy whose loss depends on no parameter.
class Detached : public ForwardingPolicy {
 public:
  using ForwardingPolicy::ForwardingPolicy;

  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override {
    const torch::Tensor loss = ForwardingPolicy::ComputeLoss(batch, noise).loss.detach();
    torch::Tensor nothing = torch::zeros({});
    for (const torch::Tensor& parameter : module().parameters()) {
      nothing = nothing + 0.0 * parameter.sum();
    }
    return {.loss = loss + nothing, .parts = {}};
  }
};

void Detach(Subject& subject) { subject.wrap = Wrap<Detached>(); }

Plant Process(ProcessFault fault, bool is_trained = false) {
  return [fault, is_trained](Subject& subject) {
    subject.is_trained = is_trained;
    subject.wrap = Wrap<FaultyProcess>(fault);
  };
}

/// A policy whose loss overflows in lower precision.
class Overflowing : public ForwardingPolicy {
 public:
  using ForwardingPolicy::ForwardingPolicy;

  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override {
    LossOutput output = ForwardingPolicy::ComputeLoss(batch, noise);
    if (at::autocast::is_autocast_enabled(torch::kCPU)) {
      output.loss = output.loss * std::numeric_limits<float>::infinity();
    }
    return output;
  }
};

void OverflowInHalfPrecision(Subject& subject) {
  subject.overrides = {"training.mixed_precision=fp16"};
  subject.wrap = Wrap<Overflowing>();
}

/// Two thirds of the values of each part never get a gradient.
void KillUnits(Subject& subject) {
  subject.wrap = [](std::unique_ptr<Policy> inner) {
    for (const auto& parameter : inner->module().named_parameters()) {
      const torch::Tensor& values = parameter.value();
      const torch::Tensor is_alive =
          torch::arange(values.numel()).remainder(3).eq(0).view(values.sizes());
      values.register_hook([is_alive](const torch::Tensor& grad) { return grad * is_alive; });
    }
    return inner;
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
    {"TimestepsOfTheLowerHalf", "B.timesteps", Process(ProcessFault::kTimesteps)},
    {"WrongForwardProcess", "C.forward_process", Process(ProcessFault::kForwardProcess)},
    {"TablesOfAnotherSchedule", "F.constants", Process(ProcessFault::kTables)},
    {"PredictedX0TooNarrow", "D.predicted_x0",
     Process(ProcessFault::kNarrowPrediction, /*is_trained=*/true)},
    {"OverflowInHalfPrecision", "D.precision", OverflowInHalfPrecision},
    {"DeadUnits", "learning.dead_units", KillUnits},
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

TEST(TrainingFaults, OfTheTablesIsNotOneOfTheForwardProcess) {
  Subject subject;
  Process(ProcessFault::kTables)(subject);
  const Findings findings = DiagnoseSubject(subject);
  EXPECT_EQ(Find(findings, "C.forward_process")->verdict, Judgement::kRejected);
}

TEST(TrainingFaults, OverfittingIsConfirmedAsANote) {
  ExpectConfirmed(
      {"", "E.overfitting", Log(HealthyLoss, [](int step) { return 0.1 + 0.002 * step; })});
}

class HealthyTraining : public testing::TestWithParam<Case> {};

TEST_P(HealthyTraining, RaisesNoProblem) { ExpectNoProblem(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Trainings, HealthyTraining,
    testing::Values(
        Case{"AConfig", "", Nothing}, Case{"Images", "", Nothing, true},
        Case{"GaussianWithRoom", "",
             Overrides({"normalizer.action=gaussian", kScheduler + "clip_sample_range=5"})},
        Case{"PredictsTheSample", "", Overrides({kScheduler + "prediction_type=sample"})},
        Case{"FlowMatching", "", Overrides({"policy.params.objective=flow_matching"})},
        Case{"ConstantRateWithoutWarmUp", "",
             Overrides({"training.lr_scheduler=constant", "training.lr_warmup_steps=5000"})},
        Case{"Mip", "", Overrides({"policy.params.objective=mip"})},
        Case{"ALog", "", Log(HealthyLoss)}),
    NameOf);

/// The training that all tests share, with its log.
void TrainedWithItsLog(Subject& subject) {
  subject.is_trained = true;
  subject.has_own_log = true;
  subject.overrides = {"training.mixed_precision=bf16"};
}

TEST(HealthyCheckpoint, RaisesNoProblemAndHasAReport) {
  Subject subject;
  TrainedWithItsLog(subject);
  const Diagnosis diagnosis = FullDiagnosis(subject);
  EXPECT_FALSE(HasProblems(diagnosis.findings)) << ToText(diagnosis.findings);
  EXPECT_EQ(Find(diagnosis.findings, "D.predicted_x0")->verdict, Judgement::kRejected);
  EXPECT_EQ(Find(diagnosis.findings, "D.predicted_x0_course")->verdict, Judgement::kRejected)
      << ToText(diagnosis.findings);
  EXPECT_THAT(Find(diagnosis.findings, "D.precision")->evidence, HasSubstr("products in bfloat16"));

  std::vector<std::string> hypotheses;
  for (const EvidenceTable& table : diagnosis.tables) hypotheses.push_back(table.hypothesis);
  EXPECT_THAT(hypotheses, UnorderedElementsAre("A", "B", "C", "D", "E", "F"));
  std::vector<std::string> plots;
  for (const report::LinePlot& plot : diagnosis.plots) {
    plots.push_back(plot.title);
    EXPECT_FALSE(plot.series.empty() || plot.series.front().points.empty()) << plot.title;
  }
  EXPECT_THAT(plots, UnorderedElementsAre("Loss", "Ranges over training: x0 and predicted_x0",
                                          "Ranges over training: noise and xt",
                                          "Predicted x_0 over training",
                                          "Histogram of t in the probed batches",
                                          "Loss by timestep in the probed batches"));
  EXPECT_THAT(ToMarkdown(diagnosis, "reach"),
              AllOf(HasSubstr("predicted x\\_0 std"), HasSubstr("sqrt\\_alphas\\_cumprod"),
                    HasSubstr("products in bfloat16"), HasSubstr("The predicted x\\_0 went from")));
}

}  // namespace
}  // namespace dp_bench::diagnose
