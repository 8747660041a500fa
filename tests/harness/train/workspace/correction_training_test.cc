// The head that corrects a frozen policy learns what the newest observation says.
#include "train/correction_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "control/correction_head.h"
#include "control/obs_history.h"
#include "data/sequence_sampler.h"
#include "harness/train/workspace/fake_training.h"
#include "planner/policy_weights.h"
#include "train/batches.h"
#include "train/fit_normalizer.h"

namespace dp_bench::train {
namespace {

// An untrained policy, and episodes whose actions follow from the position at that step.
class CorrectionTraining : public testing::Test {
 protected:
  CorrectionTraining() { policy_->SetNormalizer(kNormalizer); }

  ArrayMap Train(int n_steps, std::vector<double>* losses = nullptr,
                 CorrectionTeacher teacher = CorrectionTeacher::kDemonstrations) {
    data::BatchLoader loader(dataset_,
                             data::MakeTrainingSampler(dataset_, policy_->spec().horizons, {}),
                             {.batch_size = 16,
                              .n_obs_steps = policy_->spec().horizons.horizon,
                              .keys = {"agent_pos"},
                              .n_threads = 0});
    return TrainCorrection(*policy_, kNormalizer, loader,
                           {.teacher = teacher, .n_steps = n_steps, .n_hidden = 32, .lr = 5e-3},
                           [&](int step, double loss) {
                             if (losses != nullptr) losses->push_back(loss);
                             return step < stop_after_;
                           });
  }

  // What the head makes of an action of 0 at this position.
  std::vector<float> CorrectedAt(const ArrayMap& tensors, float x, float y) {
    const PolicySpec& spec = policy_->spec();
    const control::CorrectionHead head(tensors, spec.shape_meta, spec.horizons, "head");
    control::ObsBatch obs = control::MakeObsBatch(spec.shape_meta.obs, 1, 2);
    const std::vector<float> window = {0.3F, -0.2F, x, y};  // the newest frame is the last
    std::ranges::copy(window, obs.find("agent_pos")->second.as<float>().begin());
    std::vector<float> action = {0.0F, 0.0F};
    control::CorrectionHead::LayerValues values = head.MakeLayerValues();
    head.Correct(obs, /*place=*/1, action, &values);
    return action;
  }

  const KeyStats kStats = {
      .min = {-1, -1}, .max = {1, 1}, .mean = {0, 0}, .std = {1, 1}, .count = 2};
  const Normalizer kNormalizer{{FitKey("agent_pos", kStats, NormalizeMode::kLimits),
                                FitKey("action", kStats, NormalizeMode::kLimits)}};
  FakeDataset dataset_{/*n_episodes=*/20};
  std::unique_ptr<FakePolicy> policy_ = MakeFakePolicy();
  int stop_after_ = 1'000'000;
};

TEST_F(CorrectionTraining, LearnsTheActionFromTheNewestObservation) {
  std::vector<double> losses;
  const ArrayMap tensors = Train(600, &losses);
  EXPECT_LT(losses.back(), 0.05 * losses.front());
  // the dataset's action is (2 x - y, y + 1)
  const std::vector<float> corrected = CorrectedAt(tensors, 0.5F, -0.4F);
  EXPECT_NEAR(corrected[0], 1.4, 0.35);
  EXPECT_NEAR(corrected[1], 0.6, 0.35);
}

TEST_F(CorrectionTraining, LearnsWhatANewPlanWouldDo) {
  const ArrayMap tensors = Train(600, nullptr, CorrectionTeacher::kPlans);
  const std::vector<float> corrected = CorrectedAt(tensors, 0.5F, -0.4F);
  NoiseSource noise = BatchNoise(0, NoisePurpose::kSampling, 0, 1);
  const torch::Tensor plan = policy_->PredictAction(
      {{"agent_pos", torch::tensor({0.3F, -0.2F, 0.5F, -0.4F}).view({1, 2, 2})}}, noise);
  EXPECT_NEAR(corrected[0], plan[0][0][0].item<float>(), 0.15);
  EXPECT_NEAR(corrected[1], plan[0][0][1].item<float>(), 0.15);
}

TEST_F(CorrectionTraining, ThePolicyStaysAsItIs) {
  const ArrayMap before = planner::ModuleState(policy_->module());
  Train(5);
  for (const auto& [name, array] : planner::ModuleState(policy_->module())) {
    EXPECT_TRUE(std::ranges::equal(array.bytes(), before.find(name)->second.bytes())) << name;
  }
}

TEST_F(CorrectionTraining, EndsWhenItIsTold) {
  stop_after_ = 3;
  std::vector<double> losses;
  Train(100, &losses);
  EXPECT_EQ(losses.size(), 3U);
}

}  // namespace
}  // namespace dp_bench::train
