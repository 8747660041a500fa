// LeRobot's diffusion policies as checkpoints, and back. The numbers are LeRobot's
// (tests/golden/generate/lerobot_policies.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/atomic_file.h"
#include "dp_bench/policy/networks/diffusion_policy.h"
#include "interop/lerobot_export.h"
#include "interop/policy_folder.h"
#include "planner/create_from_checkpoint.h"
#include "planner/policy_weights.h"
#include "run/manifest.h"
#include "support/error_of.h"
#include "support/plugin_policy.h"
#include "support/scratch_folder.h"
#include "task/lerobot_import.h"
namespace dp_bench::interop {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const fs::path kTests = DPB_SOURCE_DIR "/tests";

// "world" comes after "joints" in our order, and before it in the policy's input_features
constexpr const char* kTask = R"({
  "env": {"plugin": "point_mass"},
  "shape_meta": {"obs": {"joints": {"shape": [3]}, "a_world": {"shape": [5]}}, "action": {"shape": [2]}}
})";

class LerobotPolicies : public testing::TestWithParam<const char*> {
 protected:
  task::LerobotImport Request() {
    const fs::path task = scratch_.path() / "task.json";
    core::WriteFileAtomically(task, kTask);
    return {.folder = kTests / "data/lerobot" / (std::string("policy_") + GetParam()),
            .output = scratch_.path() / "imported",
            .experiment = {{.config = task}, "", {}, {DPB_PLUGIN_DIR}}};
  }

  std::string Fault(ErrorCode code, const task::LerobotImport& request) {
    std::string fault = MessageOf(code, [&] { task::ImportLerobotPolicy(request); });
    EXPECT_FALSE(fs::exists(request.output));
    return fault;
  }

  // A copy of the policy with some of its files changed.
  fs::path Changed(const std::function<void(LerobotPolicy&)>& change) {
    LerobotPolicy policy = ReadLerobotPolicy(Request().folder);
    change(policy);
    fs::path copy = scratch_.path() / "changed";
    fs::create_directories(copy);
    WriteLerobotPolicy(copy, policy);
    return copy;
  }

  ScratchFolder scratch_;
  plugin::PluginCatalogue catalogue_{{DPB_PLUGIN_DIR}};
};

torch::Tensor Golden(const char* version, const char* name) {
  static std::map<std::string, run::Safetensors> files;
  run::Safetensors& file = files[version];
  if (file.tensors.empty()) {
    file = run::ReadSafetensors(kTests / "golden" /
                                (std::string("lerobot_policy_") + version + ".safetensors"));
  }
  return ToTensor(file.tensors.at(name));
}

// The plan from given noise, in raw units.
torch::Tensor PlanFrom(policy::DiffusionPolicy& policy, const char* version,
                       const Normalizer& normalizer) {
  const TensorMap obs = {{"joints", Golden(version, "observation.state")},
                         {"a_world", Golden(version, "observation.environment_state")}};
  NoiseSource unused({NoiseKey{}, NoiseKey{}});
  const torch::Tensor features = policy.EncodeObs(obs, nullptr);
  const torch::Tensor sample = policy.ConditionalSample(features, Golden(version, "noise"), unused);
  return normalizer.Unnormalize("action", sample.slice(1, 1, 5));
}

TEST_P(LerobotPolicies, AnImportedPolicyPlansWhatLerobotPlans) {
  const task::LerobotImport request = Request();
  task::ImportLerobotPolicy(request);
  const run::Checkpoint checkpoint = run::Checkpoint::Open(request.output);
  const Config config = Config::FromJson(checkpoint.config());
  const auto policy =
      CreatePluginDiffusion(config.Sub("policy").Sub("params"),
                            {.shape_meta = ShapeMeta::FromConfig(config.Sub("shape_meta")),
                             .horizons = Horizons::FromConfig(config)});
  planner::LoadPolicyWeights(checkpoint, *policy, planner::Weights::kEma);
  policy->module().eval();
  const torch::Tensor action = PlanFrom(*policy, GetParam(), planner::NormalizerOf(checkpoint));
  EXPECT_EQ(run::SelectionSeeds(json::parse(checkpoint.config())).n, 0);
  EXPECT_LE((action - Golden(GetParam(), "action")).abs().max().item<double>(), 1e-5);
}

// Without --map, the features have the names that they came with.
TEST_P(LerobotPolicies, AnExportedPolicyHasTheWeightsAndStatisticsThatWereImported) {
  const task::LerobotImport request = Request();
  task::ImportLerobotPolicy(request);
  const fs::path exported = scratch_.path() / "exported";
  ExportLerobotPolicy(run::Checkpoint::Open(request.output), catalogue_, {.output = exported});
  LerobotPolicy before = ReadLerobotPolicy(request.folder);
  before.config.normalization_mapping.erase(LerobotFeatureType::kVisual);  // it has no camera
  const LerobotPolicy after = ReadLerobotPolicy(exported);
  EXPECT_EQ(after.config.inputs, before.config.inputs);
  EXPECT_EQ(ToJson(after.config), ToJson(before.config));
  ASSERT_EQ(after.weights.size(), before.weights.size());
  for (const auto& [name, array] : before.weights) {
    EXPECT_TRUE(std::ranges::equal(after.weights.at(name).bytes(), array.bytes())) << name;
  }
  for (const auto& [feature, stats] : before.stats) {
    EXPECT_EQ(after.stats.at(feature).min, stats.min) << feature;
    EXPECT_EQ(after.stats.at(feature).max, stats.max) << feature;
    EXPECT_EQ(after.stats.at(feature).mean, stats.mean) << feature;
    EXPECT_EQ(after.stats.at(feature).std, stats.std) << feature;
  }
}

TEST_P(LerobotPolicies, WithoutATaskTheInputsAreTheKeys) {
  task::LerobotImport request = Request();
  request.experiment.config.clear();
  EXPECT_THAT(task::ImportLerobotPolicy(request), testing::SizeIs(2));
  const run::Checkpoint checkpoint = run::Checkpoint::Open(request.output);
  const auto loaded = planner::CreateFromCheckpoint(request.output, catalogue_);
  const ShapeMeta shape_meta = ShapeMeta::FromConfig(loaded.config.Sub("shape_meta"));
  ASSERT_EQ(shape_meta.obs.size(), 2U);
  EXPECT_EQ(shape_meta.obs[0].name, "environment_state");
  EXPECT_EQ(shape_meta.obs[1].name, "state");
  const fs::path exported = scratch_.path() / "exported";
  ExportLerobotPolicy(checkpoint, catalogue_, {.output = exported});
  EXPECT_EQ(ReadLerobotPolicy(exported).config.inputs,
            ReadLerobotPolicy(request.folder).config.inputs);
  request.map = {"observation.state=joints"};
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { task::ImportLerobotPolicy(request); }),
              HasSubstr("need --env or --config"));
}

TEST_P(LerobotPolicies, WeightsOfAModuleAroundThePolicyAreRecognized) {
  task::LerobotImport request = Request();
  request.folder = Changed([](LerobotPolicy& policy) {
    ArrayMap wrapped;
    for (const auto& [name, array] : policy.weights) {
      wrapped["agent." + name.substr(name.find('.') + 1)] = array;
    }
    policy.weights = wrapped;
  });
  EXPECT_THAT(Fault(ErrorCode::kCheckpoint, request), HasSubstr("the names begin with 'agent.'"));
}

TEST_P(LerobotPolicies, TensorsThatDoNotFitAreNamed) {
  task::LerobotImport request = Request();
  request.folder = Changed([](LerobotPolicy& policy) {
    policy.weights.erase("diffusion.unet.final_conv.1.bias");
    policy.weights["diffusion.unet.extra"] = Array(DType::kFloat32, {2});
    policy.weights["diffusion.unet.final_conv.1.weight"] = Array(DType::kFloat32, {2, 9, 1});
  });
  const std::string fault = Fault(ErrorCode::kCheckpoint, request);
  EXPECT_THAT(fault, HasSubstr("diffusion.unet.final_conv.1.bias: missing"));
  EXPECT_THAT(fault, HasSubstr("diffusion.unet.extra: not part of the policy"));
  EXPECT_THAT(fault, HasSubstr("diffusion.unet.final_conv.1.weight: expected"));
}

TEST_P(LerobotPolicies, AFieldThatContradictsTheWeightsIsFound) {
  task::LerobotImport request = Request();
  request.folder = Changed([](LerobotPolicy& policy) {
    policy.config.use_film_scale_modulation = !policy.config.use_film_scale_modulation;
  });
  EXPECT_THAT(Fault(ErrorCode::kCheckpoint, request), HasSubstr("cond_encoder.1.weight: expected"));
}

TEST_P(LerobotPolicies, AnotherTaskIsRefused) {
  task::LerobotImport request = Request();
  request.experiment.overrides = {"shape_meta.action.shape=[3]"};
  EXPECT_THAT(Fault(ErrorCode::kShape, request), HasSubstr("the policy's action is [2]"));
}

TEST_P(LerobotPolicies, SettingsThatLerobotDoesNotHaveAreNamed) {
  const struct {
    const char* override_text;
    const char* expected;
  } cases[] = {
      {"policy.params.objective=flow_matching", "policy.params.objective is \"flow_matching\""},
      {"policy.params.noise_scheduler.type=dpmsolver++", "noise_scheduler.type is"},
      {"policy.params.noise_scheduler.prediction_type=v_prediction", "prediction_type is"},
      {"policy.params.noise_scheduler.timestep_spacing=trailing", "timestep_spacing is"},
      {"policy.params.noise_scheduler.set_alpha_to_one=false", "set_alpha_to_one is false"},
      {"policy.params.noise_scheduler.eta=0.5", "eta is 0.5"},
      {"horizon=6", "horizon is 6"},
  };
  const task::LerobotImport request = Request();
  task::ImportLerobotPolicy(request);
  const run::Checkpoint original = run::Checkpoint::Open(request.output);
  for (const auto& [override_text, expected] : cases) {
    json config = json::parse(original.config());
    const std::string text = override_text;
    std::string place = "/" + text.substr(0, text.find('='));
    std::ranges::replace(place, '.', '/');
    const std::string value = text.substr(text.find('=') + 1);
    const json parsed = json::parse(value, nullptr, /*allow_exceptions=*/false);
    config[json::json_pointer(place)] = parsed.is_discarded() ? json(value) : parsed;
    run::CheckpointContents contents = {.config = config.dump(), .state = original.state()};
    contents.tensors["ema.safetensors"] = original.ReadTensors("ema.safetensors");
    contents.tensors["normalizer.safetensors"] = original.ReadTensors("normalizer.safetensors");
    const fs::path changed = scratch_.path() / "changed_checkpoint";
    fs::remove_all(changed);
    fs::create_directories(changed);
    run::WriteCheckpointFiles(changed, contents);
    const run::Checkpoint checkpoint = run::Checkpoint::Open(changed);
    EXPECT_THAT(MessageOf(ErrorCode::kConfig,
                          [&] {
                            ExportLerobotPolicy(checkpoint, catalogue_,
                                                {.output = scratch_.path() / "nothing"});
                          }),
                HasSubstr(expected));
    EXPECT_FALSE(fs::exists(scratch_.path() / "nothing"));
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, LerobotPolicies, testing::Values("v06", "v03"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace dp_bench::interop
