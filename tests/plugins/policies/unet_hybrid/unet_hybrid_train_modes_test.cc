// The convolutional policy under autocast and with gradient checkpointing.
#include <torch/optim/adam.h>

#include "harness/policy/train_modes.h"
#include "support/plugin_policy.h"
namespace dp_bench::unet_hybrid {
namespace {

constexpr std::int64_t kRows = 6;
constexpr std::int64_t kSmallImageSize = 40;

std::unique_ptr<Policy> MakePolicy(const std::string& more, std::int64_t image_size) {
  return CreateSmallDiffusion(
      R"({"down_dims": [32, 64], "diffusion_step_embed_dim": 16, "n_groups": 4,
        "obs_encoder": {"resnet_width": 16, "resnet_stages": 2)" +
          more,
      SmallSpec(image_size));
}

Batch MakeBatch(std::int64_t image_size) {
  NoiseSource source = NoiseOfRows(kRows, /*major=*/3);
  Batch batch = SmallBatch(source, kRows);
  if (image_size == 0) return batch;
  const torch::Tensor pixels =
      source.Uniform(StreamId::kEnvStart, {kRows, 2, image_size, image_size, 3}) * 255.0;
  batch.obs["image"] = pixels.to(torch::kUInt8).permute({0, 1, 4, 2, 3});
  return batch;
}

TEST(UnetHybridTrainModes, AutocastGivesNearlyTheSameGradients) {
  for (const std::int64_t image_size : {std::int64_t{0}, kSmallImageSize}) {
    policy::ExpectAutocastGivesNearlyTheSameGradients(*MakePolicy("}}", image_size),
                                                      MakeBatch(image_size));
  }
}

TEST(UnetHybridTrainModes, CheckpointingChangesNoBit) {
  for (const std::int64_t image_size : {std::int64_t{0}, kSmallImageSize}) {
    for (const std::string norm : {"true", "false"}) {
      const auto make = [&](bool is_checkpointing) {
        return MakePolicy(R"(, "use_group_norm": )" + norm + R"(}, "gradient_checkpointing": )" +
                              (is_checkpointing ? "true}" : "false}"),
                          image_size);
      };
      policy::ExpectCheckpointingChangesNoBit(make, MakeBatch(image_size));
      policy::ExpectCheckpointingSavesMemory(make, 0.7);
    }
  }
}

TEST(UnetHybridTrainModes, TheLossFallsInBfloat16AsInFloat32) {
  const Batch batch = MakeBatch(0);
  const auto last_loss = [&](train::MixedPrecision precision) {
    const auto policy = MakePolicy("}}", 0);
    torch::optim::Adam optimizer(policy->module().parameters(), torch::optim::AdamOptions(3e-3));
    float loss = 0.0F;
    for (int step = 0; step < 60; ++step) {
      loss = policy::TrainStep(*policy, batch, precision).loss;
      optimizer.step();
    }
    return loss;
  };
  const float exact = last_loss(train::MixedPrecision::kNo);
  EXPECT_LT(exact, 0.1F);
  EXPECT_LT(last_loss(train::MixedPrecision::kBf16), 2.0F * exact + 0.01F);
}

}  // namespace
}  // namespace dp_bench::unet_hybrid
