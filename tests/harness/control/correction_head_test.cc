// The head that corrects actions, with weights that can be checked by hand.
#include "control/correction_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "control/obs_history.h"
#include "support/error_of.h"

namespace dp_bench::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const ShapeMeta kHeadMeta = {
    .obs = {{.name = "image", .type = KeyType::kRgb, .shape = {3, 2, 2}, .dtype = DType::kUInt8},
            {.name = "pos", .shape = {1}}},
    .action = {.name = "action", .shape = {1}}};
const Horizons kHeadHorizons = {.horizon = 8, .n_obs_steps = 2, .n_action_steps = 4};

Array ArrayOf(Shape shape, const std::vector<float>& values) {
  Array array(DType::kFloat32, std::move(shape));
  std::ranges::copy(values, array.as<float>().begin());
  return array;
}

// Inputs: two frames of pos, the action, its place. Two layers, one hidden unit.
ArrayMap TwoLayers() {
  ArrayMap tensors;
  tensors.emplace("input.mean", ArrayOf({3}, {1, 1, 10}));
  tensors.emplace("input.std", ArrayOf({3}, {2, 2, 4}));
  tensors.emplace("0.weight", ArrayOf({1, 4}, {0, 1, 1, 8}));
  tensors.emplace("0.bias", ArrayOf({1}, {-1}));
  tensors.emplace("1.weight", ArrayOf({1, 1}, {0.5F}));
  tensors.emplace("1.bias", ArrayOf({1}, {0.25F}));
  return tensors;
}

float CorrectedAction(const ArrayMap& tensors, float newest_pos, float action, int place) {
  const CorrectionHead head(tensors, kHeadMeta, kHeadHorizons, "head");
  ObsBatch obs = MakeObsBatch(kHeadMeta.obs, /*n_rows=*/1, /*n_obs_steps=*/2);
  obs.find("pos")->second.as<float>()[1] = newest_pos;
  CorrectionHead::LayerValues values = head.MakeLayerValues();
  std::vector<float> corrected = {action};
  head.Correct(obs, place, corrected, &values);
  return corrected[0];
}

TEST(CorrectionHead, AddsWhatTheLayersSay) {
  // pos 5 -> 2, action 14 -> 1, place 2 of 4 -> 0.5: 2 + 1 + 4 - 1 = 6; 0.5 * 6 + 0.25 = 3.25
  EXPECT_FLOAT_EQ(CorrectedAction(TwoLayers(), 5, 14, 2), 14 + 4 * 3.25F);
  // below 0 the hidden unit is off
  EXPECT_FLOAT_EQ(CorrectedAction(TwoLayers(), -9, 14, 0), 14 + 4 * 0.25F);
}

TEST(CorrectionHead, InputsAreLowDimObservationsTheActionAndItsPlace) {
  EXPECT_EQ(CorrectionInputs(kHeadMeta, kHeadHorizons), 4);
  const CorrectionHead head(TwoLayers(), kHeadMeta, kHeadHorizons, "head");
  ObsBatch obs = MakeObsBatch(kHeadMeta.obs, 1, 2);
  obs.find("pos")->second.as<float>()[0] = 3;
  std::vector<float> inputs;
  head.Gather(obs, std::vector<float>{7}, /*place=*/1, &inputs);
  EXPECT_THAT(inputs, ElementsAre(3, 0, 7, 0.25));
}

TEST(CorrectionHead, AFileOfAnotherPolicyIsRefused) {
  const auto message = [](const ArrayMap& tensors) {
    return MessageOf(ErrorCode::kCheckpoint, [&] {
      CorrectionHead(tensors, kHeadMeta, kHeadHorizons, "a2c2.safetensors");
    });
  };
  ArrayMap tensors = TwoLayers();
  tensors.erase("input.std");
  EXPECT_THAT(message(tensors), HasSubstr("a2c2.safetensors: expected the tensor input.std"));
  tensors = TwoLayers();
  tensors.erase("0.weight");
  tensors.emplace("0.weight", ArrayOf({1, 5}, {0, 1, 1, 8, 1}));
  EXPECT_THAT(message(tensors),
              HasSubstr("0.weight has the shape [1, 5], expected float32 [1, 4]"));
  tensors = TwoLayers();
  tensors.erase("1.bias");
  tensors.erase("0.bias");
  EXPECT_THAT(message(tensors), HasSubstr("expected layers whose last one has 1 outputs"));
}

}  // namespace
}  // namespace dp_bench::control
