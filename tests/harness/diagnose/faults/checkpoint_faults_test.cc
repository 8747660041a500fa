// Faults planted in a trained checkpoint are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/random_streams.h"
#include "harness/diagnose/faults/planted_fault.h"
#include "train/fit_normalizer.h"

namespace dp_bench::diagnose {
namespace {

void FitToPixels(Subject& subject) {
  subject.is_trained = true;
  subject.edit_normalizer = [](Normalizer::Fields& fields) {
    const KeyStats pixels = {
        .min = {0, 0}, .max = {512, 512}, .mean = {256, 256}, .std = {9, 9}, .count = 9};
    fields.at("agent_pos") = train::FitKey("agent_pos", pixels, NormalizeMode::kLimits).second;
  };
}

// As that of a LeRobot policy with MIN_MAX.
void FitToPixelsWithoutMeans(Subject& subject) {
  FitToPixels(subject);
  subject.edit_normalizer = [fit = subject.edit_normalizer](Normalizer::Fields& fields) {
    fit(fields);
    for (auto& [key, field] : fields) {
      field.stats.mean.clear();
      field.stats.std.clear();
    }
  };
}

void DrawAnew(const std::string& name, std::span<float> values) {
  RandomStream random(name.size(), core::kInitStream);
  for (float& value : values) value = 0.05F * random.Normal();
}

void CutOffTheCondition(const std::string& name, std::span<float> values) {
  if (name.find("cond_encoder") != std::string::npos) std::ranges::fill(values, 1e-4F);
}

void Multiply(float factor, std::span<float> values) {
  for (float& value : values) value *= factor;
}

/// A multiple of the network's output.
Plant OutputTimes(float factor) {
  return EmaWeights([factor](const std::string& name, std::span<float> values) {
    if (name.find("final_conv.1.") != std::string::npos) Multiply(factor, values);
  });
}

/// A policy that samples the opposite of its actions.
class Mirrored : public ForwardingPolicy {
 public:
  using ForwardingPolicy::ForwardingPolicy;

  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    return -ForwardingPolicy::PredictAction(obs, noise);
  }
};

void MirrorActions(Subject& subject) {
  subject.is_trained = true;
  subject.wrap = Wrap<Mirrored>();
}

const std::vector<Case> kCheckpointFaults = {
    {"StatisticsOfOtherData", "normalizer.wrong_statistics", FitToPixels},
    {"ThoseWithoutMeans", "normalizer.wrong_statistics", FitToPixelsWithoutMeans},
    {"WeightsAllZero", "weights.broken",
     EmaWeights([](auto&, auto values) { Multiply(0.0F, values); })},
    {"WeightsExploded", "weights.broken",
     EmaWeights([](auto&, auto values) { Multiply(1e6F, values); })},
    {"EmaThatLags", "weights.ema_lags",
     EmaWeights([](auto&, auto values) { Multiply(0.8F, values); })},
    {"NeverTrained", "weights.untrained", EmaWeights(DrawAnew)},
    {"WrongPredictionType", "weights.prediction_type",
     Trained({kScheduler + "prediction_type=sample"})},
    {"OutputTimesAHundred", "D.prediction", OutputTimes(100.0F)},
    {"OutputTimesThree", "D.predicted_x0", OutputTimes(3.0F)},
    {"MirroredActions", "sampling.no_better_than_mean", MirrorActions},
    {"ClipSampleOff", "sampling.out_of_range",
     Trained({kScheduler + "clip_sample=false", kScheduler + "timestep_spacing=trailing"})},
    {"OneDenoisingStep", "sampling.too_few_steps", Trained({kScheduler + "num_inference_steps=1"})},
    {"ObservationsWithoutEffect", "sampling.observations_ignored", EmaWeights(CutOffTheCondition)},
};

class CheckpointFault : public testing::TestWithParam<Case> {};

TEST_P(CheckpointFault, IsNamed) { ExpectNamed(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Planted, CheckpointFault, testing::ValuesIn(kCheckpointFaults), NameOf);

TEST(CheckpointFaults, ABetterSamplerIsConfirmedAsANote) {
  ExpectConfirmed(
      {"", "sampling.variant",
       Trained({kScheduler + "clip_sample=false", kScheduler + "timestep_spacing=trailing"})});
}

TEST(CheckpointFaults, ManyClippedValuesAreANote) {
  ExpectConfirmed({"", "sampling.many_clipped", OutputTimes(100.0F)});
}

TEST(CheckpointFaults, AClipRangeThatIsTooWideIsANote) {
  ExpectConfirmed({"", "sampling.clip_range_wide", Trained({kScheduler + "clip_sample_range=20"})});
}

TEST(CheckpointFaults, AHealthyCheckpointClipsAsItShould) {
  Subject subject;
  Trained({})(subject);
  const Findings findings = DiagnoseSubject(subject);
  for (const char* id : {"sampling.many_clipped", "sampling.clip_range_wide"}) {
    const Finding* finding = Find(findings, id);
    ASSERT_NE(finding, nullptr) << id;
    EXPECT_EQ(finding->verdict, Judgement::kRejected) << finding->evidence;
  }
}

}  // namespace
}  // namespace dp_bench::diagnose
