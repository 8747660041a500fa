// Faults planted in a trained checkpoint are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/random_streams.h"
#include "harness/inspect/planted_fault.h"
#include "train/fit_normalizer.h"

namespace dp_bench::inspect {
namespace {

void FitToPixels(Subject& subject) {
  subject.is_trained = true;
  subject.edit_normalizer = [](Normalizer::Fields& fields) {
    const KeyStats pixels = {
        .min = {0, 0}, .max = {512, 512}, .mean = {256, 256}, .std = {9, 9}, .count = 9};
    fields.at("agent_pos") = train::FitKey("agent_pos", pixels, NormalizeMode::kLimits).second;
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

const std::vector<Case> kCheckpointFaults = {
    {"StatisticsOfOtherData", "normalizer.wrong_statistics", FitToPixels},
    {"WeightsAllZero", "weights.broken",
     EmaWeights([](auto&, auto values) { Multiply(0.0F, values); })},
    {"WeightsExploded", "weights.broken",
     EmaWeights([](auto&, auto values) { Multiply(1e6F, values); })},
    {"EmaThatLags", "weights.ema_lags",
     EmaWeights([](auto&, auto values) { Multiply(0.8F, values); })},
    {"NeverTrained", "weights.untrained", EmaWeights(DrawAnew)},
    {"WrongPredictionType", "weights.prediction_type",
     Trained({kScheduler + "prediction_type=sample"})},
    {"ClipSampleOff", "sampling.out_of_range",
     Trained({kScheduler + "clip_sample=false", kScheduler + "timestep_spacing=trailing"})},
    {"OneDenoisingStep", "sampling.too_few_steps", Trained({kScheduler + "num_inference_steps=1"})},
    {"ObservationsWithoutEffect", "sampling.observations_ignored", EmaWeights(CutOffTheCondition)},
};

class CheckpointFault : public testing::TestWithParam<Case> {};

TEST_P(CheckpointFault, IsNamed) { ExpectNamed(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Planted, CheckpointFault, testing::ValuesIn(kCheckpointFaults), NameOf);

}  // namespace
}  // namespace dp_bench::inspect
