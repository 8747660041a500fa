// plan_with_stages CHECKPOINT OBS OUTPUT [NORMALIZER]: plans once with a checkpoint's policy, for
// comparisons with another implementation. OBS: safetensors, "<key>" [B, To, shape...]. NORMALIZER:
// safetensors in float64, "<key>.scale" and "<key>.offset", for a plan in float64. OUTPUT:
// safetensors with "action", "action in float64" if there is a NORMALIZER, the stages "<n> <name>"
// in the order of the data flow, and "noise.<n>", the normal numbers in the order in which the
// policy draws them.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "dp_bench/error.h"
#include "dp_bench/policy/networks/diffusion_policy.h"
#include "dp_bench/tensor.h"
#include "planner/create_from_checkpoint.h"
#include "plugin/catalogue.h"
#include "policy/stage_recorder.h"
#include "run/safetensors.h"
#include "support/double_policy.h"

namespace dp_bench {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr int kMaxDraws = 128;

NoiseSource MakeNoise(std::int64_t batch_size) {
  std::vector<NoiseKey> rows;
  for (std::int64_t i = 0; i < batch_size; ++i) {
    rows.push_back({.seed = kSeed, .minor = static_cast<std::uint32_t>(i)});
  }
  return NoiseSource(std::move(rows));
}

TensorMap ReadObs(const std::string& path, const ShapeMeta& shape_meta) {
  TensorMap obs = planner::ToTensors(run::ReadSafetensors(path).tensors);
  for (const KeySpec& key : shape_meta.obs) {
    // as a rollout gives them: stored [H, W, C], seen [C, H, W]
    if (key.type != KeyType::kRgb) continue;
    torch::Tensor& images = obs.at(key.name);
    images = images.permute({0, 1, 3, 4, 2}).contiguous().permute({0, 1, 4, 2, 3});
  }
  return obs;
}

// The fields of a checkpoint, with the scales and offsets of a file.
Normalizer::Fields ReadFields(const std::string& folder, const std::string& normalizer) {
  const TensorMap exact = planner::ToTensors(run::ReadSafetensors(normalizer).tensors);
  Normalizer::Fields fields = planner::NormalizerOf(run::Checkpoint::Open(folder)).fields();
  for (auto& [key, field] : fields) {
    field.scale = exact.at(key + ".scale");
    field.offset = exact.at(key + ".offset");
  }
  return fields;
}

void Plan(const std::string& folder, const std::string& input, const std::string& output,
          const std::optional<std::string>& normalizer) {
  plugin::PluginCatalogue catalogue(plugin::PluginCatalogue::DefaultSearchPath({}));
  const auto [config, policy] = planner::CreateFromCheckpoint(folder, catalogue);
  const TensorMap obs = ReadObs(input, policy->spec().shape_meta);
  const std::int64_t batch_size = obs.begin()->second.size(0);

  TensorMap result;
  int n_stages = 0;
  const policy::StageRecorder recorder([&](std::string_view name, const torch::Tensor& tensor) {
    result[fmt::format("{:04} {}", n_stages++, name)] = tensor.clone().contiguous();
  });
  NoiseSource noise = MakeNoise(batch_size);
  result["action"] = policy->PredictAction(obs, noise);

  NoiseSource again = MakeNoise(batch_size);
  const Horizons& horizons = policy->spec().horizons;
  // with inpainting, the sequence has more channels than the action
  policy::DiffusionPolicy* const diffusion = policy::DiffusionPolicy::Find(*policy);
  const std::int64_t n_channels =
      diffusion != nullptr ? diffusion->channels().sample : policy->spec().shape_meta.action_dim();
  for (int i = 0; i < kMaxDraws; ++i) {
    result[fmt::format("noise.{}", i)] =
        again.Randn(StreamId::kPolicyNoise, {batch_size, horizons.horizon, n_channels});
  }

  if (normalizer) {
    // without the guard of plugins, which insists on actions in float32
    DPB_ASSERT(diffusion != nullptr);
    ToDouble(*diffusion, ReadFields(folder, *normalizer));
    again = MakeNoise(batch_size);
    result["action in float64"] = diffusion->PredictAction(obs, again);
  }
  run::WriteSafetensors(output, planner::ToArrays(result));
}

}  // namespace
}  // namespace dp_bench

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fputs("usage: plan_with_stages CHECKPOINT OBS OUTPUT [NORMALIZER]\n", stderr);
    return 2;
  }
  try {
    dp_bench::Plan(argv[1], argv[2], argv[3],
                   argc == 5 ? std::optional<std::string>(argv[4]) : std::nullopt);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plan_with_stages: %s\n", error.what());
    return 1;
  }
  return 0;
}
