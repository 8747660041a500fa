#include <torch/optim/adam.h>
// The convolutional policy under autocast and with gradient checkpointing.
#include <torch/optim/adam.h>

#include "harness/policy/train_modes.h"
#include "unet_hybrid_policy.h"
namespace dp_bench::unet_hybrid {
#include <torch/optim/adam.h>
namespace {
#include <torch/optim/adam.h>
constexpr std::int64_t kRows = 6;
#include <torch/optim/adam.h>
constexpr std::int64_t kSmallImageSize = 40;
#include <torch/optim/adam.h>
std::unique_ptr<Policy> MakePolicy(const std::string& more, std::int64_t image_size) {
#include <torch/optim/adam.h>
  torch::manual_seed(5);
#include <torch/optim/adam.h>
  auto policy = unet_hybrid::MakePolicy(
#include <torch/optim/adam.h>
      Config::FromJson(R"({"down_dims": [32, 64], "diffusion_step_embed_dim": 16, "n_groups": 4,
#include <torch/optim/adam.h>
        "obs_encoder": {"resnet_width": 16, "resnet_stages": 2)" +
#include <torch/optim/adam.h>
                       more),
#include <torch/optim/adam.h>
      SmallSpec(image_size));
#include <torch/optim/adam.h>
  policy->SetNormalizer(SmallNormalizer());
#include <torch/optim/adam.h>
  return policy;
#include <torch/optim/adam.h>
}
#include <torch/optim/adam.h>
Batch MakeBatch(std::int64_t image_size) {
#include <torch/optim/adam.h>
  NoiseSource source = NoiseOfRows(kRows, /*major=*/3);
#include <torch/optim/adam.h>
  Batch batch = {.obs = {{"agent_pos", source.Uniform(StreamId::kEnvStart, {kRows, 2, 2})}},
#include <torch/optim/adam.h>
                 .action = source.Uniform(StreamId::kEnvStart, {kRows, 8, 2}) * 2.0 - 1.0,
#include <torch/optim/adam.h>
                 .is_pad = torch::zeros({kRows, 8}, torch::kBool)};
#include <torch/optim/adam.h>
  if (image_size == 0) return batch;
#include <torch/optim/adam.h>
  const torch::Tensor pixels =
#include <torch/optim/adam.h>
      source.Uniform(StreamId::kEnvStart, {kRows, 2, image_size, image_size, 3}) * 255.0;
#include <torch/optim/adam.h>
  batch.obs["image"] = pixels.to(torch::kUInt8).permute({0, 1, 4, 2, 3});
#include <torch/optim/adam.h>
  return batch;
#include <torch/optim/adam.h>
}
#include <torch/optim/adam.h>
TEST(UnetHybridTrainModes, AutocastGivesNearlyTheSameGradients) {
#include <torch/optim/adam.h>
  for (const std::int64_t image_size : {std::int64_t{0}, kSmallImageSize}) {
#include <torch/optim/adam.h>
    policy::ExpectAutocastGivesNearlyTheSameGradients(*MakePolicy("}}", image_size),
#include <torch/optim/adam.h>
                                                      MakeBatch(image_size));
#include <torch/optim/adam.h>
  }
#include <torch/optim/adam.h>
}
#include <torch/optim/adam.h>
TEST(UnetHybridTrainModes, CheckpointingChangesNoBit) {
#include <torch/optim/adam.h>
  for (const std::int64_t image_size : {std::int64_t{0}, kSmallImageSize}) {
#include <torch/optim/adam.h>
    for (const std::string norm : {"true", "false"}) {
#include <torch/optim/adam.h>
      const auto make = [&](bool is_checkpointing) {
#include <torch/optim/adam.h>
        return MakePolicy(R"(, "use_group_norm": )" + norm + R"(}, "gradient_checkpointing": )" +
#include <torch/optim/adam.h>
                              (is_checkpointing ? "true}" : "false}"),
#include <torch/optim/adam.h>
                          image_size);
#include <torch/optim/adam.h>
      };
#include <torch/optim/adam.h>
      policy::ExpectCheckpointingChangesNoBit(make, MakeBatch(image_size));
#include <torch/optim/adam.h>
      policy::ExpectCheckpointingSavesMemory(make, 0.7);
#include <torch/optim/adam.h>
    }
#include <torch/optim/adam.h>
  }
#include <torch/optim/adam.h>
}
#include <torch/optim/adam.h>
TEST(UnetHybridTrainModes, TheLossFallsInBfloat16AsInFloat32) {
#include <torch/optim/adam.h>
  const Batch batch = MakeBatch(0);
#include <torch/optim/adam.h>
  const auto last_loss = [&](train::MixedPrecision precision) {
#include <torch/optim/adam.h>
    const auto policy = MakePolicy("}}", 0);
#include <torch/optim/adam.h>
    torch::optim::Adam optimizer(policy->module().parameters(), torch::optim::AdamOptions(3e-3));
#include <torch/optim/adam.h>
    float loss = 0.0F;
#include <torch/optim/adam.h>
    for (int step = 0; step < 60; ++step) {
#include <torch/optim/adam.h>
      loss = policy::TrainStep(*policy, batch, precision).loss;
#include <torch/optim/adam.h>
      optimizer.step();
#include <torch/optim/adam.h>
    }
#include <torch/optim/adam.h>
    return loss;
#include <torch/optim/adam.h>
  };
#include <torch/optim/adam.h>
  const float exact = last_loss(train::MixedPrecision::kNo);
#include <torch/optim/adam.h>
  EXPECT_LT(exact, 0.1F);
#include <torch/optim/adam.h>
  EXPECT_LT(last_loss(train::MixedPrecision::kBf16), 2.0F * exact + 0.01F);
#include <torch/optim/adam.h>
}
#include <torch/optim/adam.h>
}  // namespace
#include <torch/optim/adam.h>
}  // namespace dp_bench::unet_hybrid
