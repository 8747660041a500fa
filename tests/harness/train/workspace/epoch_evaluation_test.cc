// What is measured between two epochs, and when.
#include "train/epoch_evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "data/sequence_sampler.h"
#include "fake_training.h"
#include "train/fit_normalizer.h"

namespace dp_bench::train {
namespace {

using testing::IsEmpty;
using testing::Key;
using testing::UnorderedElementsAre;

class EpochEvaluationTest : public testing::Test {
 protected:
  EpochEvaluationTest() {
    config_.num_epochs = 10;
    config_.rollout_every = 4;
    config_.val_every = 2;
    config_.sample_every = 3;
    policy_->SetNormalizer(FitNormalizer(dataset_, policy_->spec().shape_meta, {}));
  }

  std::unique_ptr<data::BatchLoader> MakeLoader(int n_obs_steps = 2) const {
    data::BatchLoaderOptions options;
    options.batch_size = 5;
    options.n_obs_steps = n_obs_steps;
    options.keys = {"agent_pos"};
    options.n_threads = 0;
    const std::vector<bool> all(dataset_.episode_ends().size(), true);
    return std::make_unique<data::BatchLoader>(
        dataset_, data::MakeTrainingSampler(dataset_, policy_->spec().horizons, all), options);
  }

  EpochEvaluation MakeEvaluation(bool has_val_episodes = true) const {
    EpochEvaluation::Parts parts = {
        .config = config_, .parallel = parallel_, .device = torch::kCPU};
    if (has_val_episodes) parts.val_loader = MakeLoader();
    const auto loader = MakeLoader();
    loader->StartEpoch(0);
    loader->Next(&parts.sampled);
    return EpochEvaluation(std::move(parts));
  }

  const FakeDataset dataset_;
  const std::unique_ptr<FakePolicy> policy_ = MakeFakePolicy();
  TrainingConfig config_;
  core::SingleProcess alone_;
  const DataParallel parallel_{alone_};
};

TEST_F(EpochEvaluationTest, MeasuresWhatIsDue) {
  EpochEvaluation evaluation = MakeEvaluation();
  const auto run = [&](int epoch) {
    return evaluation.Run(FakeEvaluate, *policy_, *policy_, epoch)->metrics;
  };
  const auto all =
      UnorderedElementsAre(Key("test/mean_score"), Key("val_loss"), Key("train_action_mse_error"));
  EXPECT_THAT(run(0), all);
  EXPECT_THAT(run(1), IsEmpty());
  EXPECT_THAT(run(2), UnorderedElementsAre(Key("val_loss")));
  EXPECT_THAT(run(3), UnorderedElementsAre(Key("train_action_mse_error")));
  EXPECT_THAT(run(9), all) << "the last epoch";
}

// a policy that learns from later observations still plans from the first To
TEST_F(EpochEvaluationTest, ActionsAreSampledFromTheObservedStepsAlone) {
  const auto error_with = [&](int n_obs_steps) {
    EpochEvaluation::Parts parts = {
        .config = config_, .parallel = parallel_, .device = torch::kCPU};
    const auto loader = MakeLoader(n_obs_steps);
    loader->StartEpoch(0);
    loader->Next(&parts.sampled);
    EpochEvaluation evaluation(std::move(parts));
    return evaluation.Run({}, *policy_, *policy_, /*epoch=*/0)
        ->metrics.at("train_action_mse_error");
  };
  EXPECT_EQ(error_with(4), error_with(2));
}

TEST_F(EpochEvaluationTest, WithoutValidationEpisodesAndRolloutsTheActionsAreLeft) {
  const auto results =
      MakeEvaluation(/*has_val_episodes=*/false).Run({}, *policy_, *policy_, /*epoch=*/0);
  EXPECT_THAT(results->metrics, UnorderedElementsAre(Key("train_action_mse_error")));
  EXPECT_FALSE(results->scores);
}

TEST_F(EpochEvaluationTest, TheSameWeightsMeasureTheSameAtEveryEpoch) {
  EpochEvaluation evaluation = MakeEvaluation();
  const auto first = evaluation.Run(FakeEvaluate, *policy_, *policy_, 0)->metrics;
  policy_->module().train();
  EXPECT_EQ(evaluation.Run(FakeEvaluate, *policy_, *policy_, 9)->metrics, first);
  EXPECT_FALSE(policy_->module().is_training());
}

TEST_F(EpochEvaluationTest, InterruptedRolloutsLeaveNothing) {
  int n_losses = 0;
  policy_->on_loss = [&] { ++n_losses; };
  const auto interrupted = [](Policy&, int) -> std::optional<Scores> { return std::nullopt; };
  EXPECT_FALSE(MakeEvaluation().Run(interrupted, *policy_, *policy_, 0));
  EXPECT_EQ(n_losses, 0) << "the validation waits for the repeated rollouts";
}

}  // namespace
}  // namespace dp_bench::train
