// LeRobot's diffusion policies as checkpoints, and back. The numbers are LeRobot's
// (tests/golden/generate/lerobot_policies.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "dp_bench/policy/networks/diffusion_policy.h"
#include "harness/interop/imported_policy.h"
#include "planner/create_from_checkpoint.h"
#include "planner/policy_weights.h"
#include "run/manifest.h"
#include "support/difference.h"
#include "support/error_of.h"
#include "support/golden.h"
#include "support/plugin_policy.h"

namespace dp_bench::interop {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

// "world" comes after "joints" in our order, and before it in the policy's input_features
constexpr const char* kTask = R"({
  "env": {"plugin": "point_mass"},
  "shape_meta": {"obs": {"joints": {"shape": [3]}, "a_world": {"shape": [5]}}, "action": {"shape": [2]}}
})";

class LerobotPolicies : public ImportedPolicy, public testing::WithParamInterface<const char*> {
 protected:
  task::LerobotImport Request() { return RequestFor(std::string("policy_") + GetParam(), kTask); }

  static torch::Tensor Get(const char* name) {
    return ToTensor(Golden(std::string("lerobot_policy_") + GetParam()).tensors.at(name));
  }

  std::string Fault(ErrorCode code, const task::LerobotImport& request) {
    std::string fault = MessageOf(code, [&] { task::ImportLerobotPolicy(request); });
    EXPECT_FALSE(fs::exists(request.output));
    return fault;
  }

  // A copy of the policy with some of its files changed.
  fs::path Damaged(const std::function<void(LerobotPolicy&)>& change) {
    LerobotPolicy policy = ReadLerobotPolicy(Request().folder);
    change(policy);
    fs::path copy = scratch_.path() / "damaged";
    fs::create_directories(copy);
    WriteLerobotPolicy(copy, policy);
    return copy;
  }
};

TEST_P(LerobotPolicies, AnImportedPolicyPlansWhatLerobotPlans) {
  const run::Checkpoint checkpoint = Imported(Request());
  const Config config = Config::FromJson(checkpoint.config());
  const auto policy =
      CreatePluginDiffusion(config.Sub("policy").Sub("params"),
                            {.shape_meta = ShapeMeta::FromConfig(config.Sub("shape_meta")),
                             .horizons = Horizons::FromConfig(config)});
  planner::LoadPolicyWeights(checkpoint, *policy, planner::Weights::kEma);
  policy->module().eval();
  EXPECT_EQ(run::SelectionSeeds(json::parse(checkpoint.config())).n, 0);

  NoiseSource unused({NoiseKey{}, NoiseKey{}});
  const torch::Tensor features = policy->EncodeObs(
      {{"joints", Get("observation.state")}, {"a_world", Get("observation.environment_state")}},
      nullptr);
  const torch::Tensor sample = policy->ConditionalSample(features, Get("noise"), unused);
  const torch::Tensor action =
      planner::NormalizerOf(checkpoint).Unnormalize("action", sample.slice(1, 1, 5));
  EXPECT_LE(Difference(action, Get("action")), 1e-5);
}

// Without --map, the features have the names that they came with.
TEST_P(LerobotPolicies, AnExportedPolicyHasTheWeightsAndStatisticsThatWereImported) {
  Export(Imported(Request()));
  LerobotPolicy before = ReadLerobotPolicy(Request().folder);
  before.config.normalization_mapping.erase(LerobotFeatureType::kVisual);  // it has no camera
  const LerobotPolicy after = ReadLerobotPolicy(exported_);
  EXPECT_EQ(after.config.inputs, before.config.inputs);
  EXPECT_EQ(ToJson(after.config), ToJson(before.config));
  ExpectEqualWeights(after, before);
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
  const auto loaded = planner::CreateFromCheckpoint(request.output, catalogue_);
  const ShapeMeta shape_meta = ShapeMeta::FromConfig(loaded.config.Sub("shape_meta"));
  ASSERT_EQ(shape_meta.obs.size(), 2U);
  EXPECT_EQ(shape_meta.obs[0].name, "environment_state");
  EXPECT_EQ(shape_meta.obs[1].name, "state");
  Export(run::Checkpoint::Open(request.output));
  EXPECT_EQ(ReadLerobotPolicy(exported_).config.inputs,
            ReadLerobotPolicy(request.folder).config.inputs);
  request.map = {"observation.state=joints"};
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { task::ImportLerobotPolicy(request); }),
              HasSubstr("need --env or --config"));
}

TEST_P(LerobotPolicies, WeightsOfAModuleAroundThePolicyAreRecognized) {
  task::LerobotImport request = Request();
  request.folder = Damaged([](LerobotPolicy& policy) {
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
  request.folder = Damaged([](LerobotPolicy& policy) {
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
  request.folder = Damaged([](LerobotPolicy& policy) {
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
    const char* place;
    json value;
    const char* expected;
  } cases[] = {
      {"/policy/params/objective", "flow_matching", "policy.params.objective is \"flow_matching\""},
      {"/policy/params/noise_scheduler/type", "dpmsolver++", "noise_scheduler.type is"},
      {"/policy/params/noise_scheduler/prediction_type", "v_prediction", "prediction_type is"},
      {"/policy/params/noise_scheduler/timestep_spacing", "trailing", "timestep_spacing is"},
      {"/policy/params/noise_scheduler/set_alpha_to_one", false, "set_alpha_to_one is false"},
      {"/policy/params/noise_scheduler/eta", 0.5, "eta is 0.5"},
      {"/horizon", 6, "horizon is 6"},
  };
  const run::Checkpoint imported = Imported(Request());
  for (const auto& [place, value, expected] : cases) {
    const run::Checkpoint changed = Changed(imported, place, value);
    EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { Export(changed); }), HasSubstr(expected));
    EXPECT_FALSE(fs::exists(exported_));
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, LerobotPolicies, testing::Values("v06", "v03"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace dp_bench::interop
