// The RGB-D policy under autocast and with gradient checkpointing.
#include "harness/policy/train_modes.h"
#include "support/plugin_policy.h"
#include "train/fit_normalizer.h"

namespace dp_bench::rgbd_fusion {
namespace {

constexpr std::int64_t kRows = 4;
constexpr std::int64_t kSmallHeight = 40;
constexpr std::int64_t kSmallWidth = 48;

// Two cameras with depth.
PolicySpec MakeSmallSpec() {
  PolicySpec spec = SmallSpec();
  for (const char* camera : {"0", "1"}) {
    spec.shape_meta.obs.push_back({.name = std::string("depth") + camera,
                                   .type = KeyType::kDepth,
                                   .shape = {1, kSmallHeight, kSmallWidth},
                                   .dtype = DType::kFloat32});
    spec.shape_meta.obs.push_back({.name = std::string("image") + camera,
                                   .type = KeyType::kRgb,
                                   .shape = {3, kSmallHeight, kSmallWidth},
                                   .dtype = DType::kUInt8});
  }
  return spec;
}

std::unique_ptr<Policy> MakePolicy(const std::string& more) {
  Normalizer::Fields fields = SmallNormalizer().fields();
  for (const char* camera : {"0", "1"}) {
    fields.insert(train::FitKey(std::string("image") + camera, {}, NormalizeMode::kImage));
    fields.insert(train::FitKey(std::string("depth") + camera, {.min = {0.0}, .max = {2.0}},
                                NormalizeMode::kDepth));
  }
  return CreateSmallDiffusion(R"({"crop_shape": [36, 44], "obs_encoder": {"resnet_width": 16,
        "resnet_stages": 3, "spatial_softmax_num_keypoints": 8, "n_head": 2,
        "state_feature_dim": 16, "fusion": "residual"},
        "denoiser": {"n_layer": 2, "n_head": 2, "n_emb": 64, "p_drop_attn": 0.2})" +
                                  more + "}",
                              MakeSmallSpec(), Normalizer(std::move(fields)));
}

Batch MakeBatch() {
  NoiseSource source = NoiseOfRows(kRows, /*major=*/3);
  const auto draw = [&](std::int64_t channels) {
    return source.Uniform(StreamId::kEnvStart, {kRows, 2, kSmallHeight, kSmallWidth, channels})
        .permute({0, 1, 4, 2, 3});
  };
  Batch batch = SmallBatch(source, kRows);
  for (const char* camera : {"0", "1"}) {
    batch.obs[std::string("image") + camera] = (draw(3) * 255.0).to(torch::kUInt8);
    batch.obs[std::string("depth") + camera] = draw(1) * 2.0;
  }
  return batch;
}

TEST(RgbdFusionTrainModes, AutocastGivesNearlyTheSameGradients) {
  policy::ExpectAutocastGivesNearlyTheSameGradients(*MakePolicy(""), MakeBatch());
}

TEST(RgbdFusionTrainModes, CheckpointingChangesNoBit) {
  const auto make = [](bool is_checkpointing) {
    return MakePolicy(is_checkpointing ? R"(, "gradient_checkpointing": true)" : "");
  };
  policy::ExpectCheckpointingChangesNoBit(make, MakeBatch());
  policy::ExpectCheckpointingSavesMemory(make, 0.7);
}

}  // namespace
}  // namespace dp_bench::rgbd_fusion
