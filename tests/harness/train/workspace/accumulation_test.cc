// Accumulated gradients equal those of the large batch.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harness/train/workspace/fake_training.h"
#include "support/scratch_folder.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;

/// The weights after one epoch without noise in the loss.
std::vector<torch::Tensor> WeightsAfterOneEpoch(const fs::path& output, int batch_size, int window,
                                                std::int64_t* n_updates) {
  const FakeDataset dataset;
  const Config config = Config::FromJson(
      R"({"training": {"num_epochs": 1, "lr_scheduler": "constant", "use_ema": false,
          "gradient_accumulate_every": )" +
      std::to_string(window) + R"(}, "dataloader": {"batch_size": )" + std::to_string(batch_size) +
      R"(, "shuffle": false}})");
  WorkspaceParts parts = FakeParts(config, dataset, output);
  parts.create_policy = [] { return std::make_unique<FakePolicy>(0.0F); };
  Workspace workspace(std::move(parts));
  *n_updates = workspace.num_training_steps();
  workspace.Run({});
  return workspace.eval_policy().module().parameters();
}

TEST(Accumulation, EqualsTheLargeBatchExactlyToTheEndOfTheEpoch) {
  // 78 sequences: 4 windows of 5 batches of 4, the last one of 4 + 4 + 4 + 4 + 2 rows
  const ScratchFolder scratch;
  std::int64_t n_large = 0;
  std::int64_t n_small = 0;
  const auto large = WeightsAfterOneEpoch(scratch.path() / "large", 20, 1, &n_large);
  const auto small = WeightsAfterOneEpoch(scratch.path() / "small", 4, 5, &n_small);
  EXPECT_EQ(n_large, 4);
  EXPECT_EQ(n_small, 4);
  constexpr double kTolerance = 1e-6;  // float32 sums in another order, weights of order 1
  for (std::size_t i = 0; i < large.size(); ++i) {
    EXPECT_TRUE(torch::allclose(large[i], small[i], 0.0, kTolerance));
  }
}

/// The gradients of the first update, summed over the batches of its window.
std::vector<torch::Tensor> FirstGradients(const fs::path& output, int batch_size, int window) {
  const FakeDataset dataset;
  const Config config = Config::FromJson(
      R"({"training": {"num_epochs": 1, "use_ema": false, "sample_every": 0, "max_train_steps": )" +
      std::to_string(window) + R"(, "gradient_accumulate_every": )" + std::to_string(window) +
      R"(}, "dataloader": {"batch_size": )" + std::to_string(batch_size) +
      R"(, "shuffle": false}})");
  std::vector<torch::Tensor> sums;
  WorkspaceParts parts = FakeParts(config, dataset, output);
  parts.create_policy = [&sums] {
    auto policy = std::make_unique<FakePolicy>(0.0F);
    for (torch::Tensor& parameter : policy->module().parameters()) {
      sums.push_back(torch::zeros_like(parameter));
      parameter.register_hook([sum = sums.back()](const torch::Tensor& gradient) {
        const torch::NoGradGuard no_grad;
        sum.add_(gradient);
      });
    }
    return policy;
  };
  Workspace(std::move(parts)).Run({});
  return sums;
}

TEST(Accumulation, FourBatchesOf16GiveTheGradientsOfOneOf64) {
  const ScratchFolder scratch;
  const auto large = FirstGradients(scratch.path() / "large", 64, 1);
  const auto small = FirstGradients(scratch.path() / "small", 16, 4);
  ASSERT_EQ(large.size(), 2U);
  for (std::size_t i = 0; i < large.size(); ++i) {
    EXPECT_GT(large[i].abs().max().item<double>(), 0.01);
    EXPECT_LT((large[i] - small[i]).abs().max().item<double>(), 1e-6);
  }
}

}  // namespace
}  // namespace dp_bench::train
