// The bridge between the runner's host buffers and a policy's tensors.
#include "planner/policy_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "support/error_of.h"

namespace dp_bench::planner {
namespace {

using testing::HasSubstr;

constexpr int kMicroBatch = 3;

class FakePolicy : public Policy {
 public:
  using Predict = std::function<torch::Tensor(const TensorMap& obs, NoiseSource& noise)>;

  explicit FakePolicy(Predict predict) : predict_(std::move(predict)) {
    spec_.horizons = {.horizon = 4, .n_obs_steps = 2, .n_action_steps = 2};
    spec_.shape_meta.obs = {
        {.name = "image", .type = KeyType::kRgb, .shape = {3, 2, 4}, .dtype = DType::kUInt8},
        {.name = "pos", .shape = {5}}};
    spec_.shape_meta.action = {.name = "action", .shape = {2}};
  }

  const PolicySpec& spec() const override { return spec_; }
  void SetNormalizer(const Normalizer&) override {}
  LossOutput ComputeLoss(const Batch&, NoiseSource&) override { return {}; }
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    return predict_(obs, noise);
  }
  torch::Tensor ContinueAction(const TensorMap& obs, const ChunkPrefix& prefix,
                               NoiseSource& noise) override {
    prefix_weights = prefix.weights;
    return predict_(obs, noise);
  }
  bool can_continue_chunks() const override { return true; }
  int max_prefix() const override { return 1; }

  torch::Tensor prefix_weights;  // of the last plan, [B, Ta]

  torch::nn::Module& module() override { return module_; }

 private:
  Predict predict_;
  PolicySpec spec_;
  torch::nn::Module module_;
};

control::ObsBatch CountingObs() {
  control::ObsBatch obs;
  Array& image =
      obs.emplace("image", Array(DType::kUInt8, {kMicroBatch, 2, 2, 4, 3})).first->second;
  std::iota(image.as<std::uint8_t>().begin(), image.as<std::uint8_t>().end(), std::uint8_t{0});
  Array& pos = obs.emplace("pos", Array(DType::kFloat32, {kMicroBatch, 2, 5})).first->second;
  std::iota(pos.as<float>().begin(), pos.as<float>().end(), 0.0F);
  return obs;
}

std::vector<float> Plan(const FakePolicy::Predict& predict,
                        const std::vector<control::PlanRow>& rows) {
  FakePolicy policy(predict);
  PolicyPlanner planner(policy, torch::kCPU, kMicroBatch);
  std::vector<float> actions(kMicroBatch * 2 * 2);
  planner.Plan(CountingObs(), rows, actions);
  return actions;
}

torch::Tensor DrawNoise(const TensorMap&, NoiseSource& noise) {
  return noise.Randn(StreamId::kPolicyNoise, {kMicroBatch, 2, 2});
}

TEST(PolicyPlanner, GivesImagesChannelsFirstAndActionsInOrder) {
  const std::vector<float> actions = Plan(
      [](const TensorMap& obs, NoiseSource&) {
        const torch::Tensor image = obs.find("image")->second;
        EXPECT_EQ(image.sizes(), (std::vector<std::int64_t>{kMicroBatch, 2, 3, 2, 4}));
        EXPECT_EQ(image.scalar_type(), torch::kUInt8);
        // [row 1, step 0, channel 2, y 1, x 3] of [B, To, H, W, C] counted in C order
        EXPECT_EQ(image[1][0][2][1][3].item<int>(), 48 + 12 + 9 + 2);
        const torch::Tensor pos = obs.find("pos")->second;
        EXPECT_EQ(pos[2][1][4].item<float>(), 29.0F);
        return torch::arange(kMicroBatch * 4).reshape({kMicroBatch, 2, 2}).to(torch::kFloat64);
      },
      {{.seed = 1}, {.seed = 2}, {.seed = 3}});
  for (std::size_t i = 0; i < actions.size(); ++i) EXPECT_EQ(actions[i], static_cast<float>(i));
}

TEST(PolicyPlanner, NoiseOfARowIsNamedBySeedAndStepAlone) {
  const control::PlanRow a = {.seed = 5, .env_step = 8};
  const control::PlanRow b = {.seed = 6, .env_step = 8};
  const control::PlanRow c = {.seed = 5, .env_step = 16};
  const std::vector<float> abc = Plan(DrawNoise, {a, b, c});
  const std::vector<float> cab = Plan(DrawNoise, {c, a, b});
  const std::vector<float> only_b = Plan(DrawNoise, {b});
  const auto row = [](const std::vector<float>& actions, int i) {
    return std::vector<float>(actions.begin() + 4 * i, actions.begin() + 4 * (i + 1));
  };
  EXPECT_EQ(row(abc, 0), row(cab, 1));
  EXPECT_EQ(row(abc, 1), row(cab, 2));
  EXPECT_EQ(row(abc, 2), row(cab, 0));
  EXPECT_EQ(row(abc, 1), row(only_b, 0));
  EXPECT_EQ(row(only_b, 0), row(only_b, 2));  // padding repeats the first row
  EXPECT_NE(row(abc, 0), row(abc, 1));
  EXPECT_NE(row(abc, 0), row(abc, 2));
}

TEST(PolicyPlanner, GivesNoLongerPrefixThanThePolicyWasTrainedWith) {
  FakePolicy policy(DrawNoise);
  control::ChunkingConfig chunking = {.method = control::ChunkingMethod::kTrainingTimeRtc};
  chunking.schedule = control::PrefixSchedule::kZeros;
  chunking.delay = 1;
  PolicyPlanner planner(policy, torch::kCPU, kMicroBatch, chunking);
  const std::vector<float> committed(2 * 2);
  const control::PlanRow slow = {.seed = 1, .committed = committed, .delay = 2};
  std::vector<float> actions(kMicroBatch * 2 * 2);
  planner.Plan(CountingObs(), {&slow, 1}, actions);
  EXPECT_EQ(policy.prefix_weights[0][0].item<float>(), 1.0F);
  EXPECT_EQ(policy.prefix_weights[0][1].item<float>(), 0.0F);
}

TEST(PolicyPlanner, RunsWithoutGradient) {
  Plan(
      [](const TensorMap&, NoiseSource&) {
        EXPECT_FALSE(torch::GradMode::is_enabled());
        return torch::zeros({kMicroBatch, 2, 2});
      },
      {{.seed = 1}});
}

TEST(PolicyPlanner, WrongChunkShapeNamesBoth) {
  const auto too_long = [](const TensorMap&, NoiseSource&) {
    return torch::zeros({kMicroBatch, 4, 2});
  };
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { Plan(too_long, {{.seed = 1}}); }),
              HasSubstr("shape [3, 4, 2], expected [3, 2, 2]"));
}

}  // namespace
}  // namespace dp_bench::planner
