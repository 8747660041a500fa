// LeRobot's ACT as a checkpoint, and back. The numbers are LeRobot's
// (tests/golden/generate/lerobot_policies.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/interop/imported_policy.h"
#include "planner/create_from_checkpoint.h"
#include "support/difference.h"
#include "support/error_of.h"
#include "support/golden.h"
#include "support/small_policy.h"

namespace dp_bench::interop {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const fs::path kLerobotAct06 = DPB_SOURCE_DIR "/tests/data/lerobot/policy_act_v06";

// "joints" comes before "gripper" in the policy's state, and after it in the alphabet
constexpr const char* kActTask = R"({
  "env": {"plugin": "point_mass"},
  "shape_meta": {"obs": {"joints": {"shape": [2]}, "gripper": {"shape": [1]},
                         "a_world": {"shape": [5]}}, "action": {"shape": [2]}}
})";

torch::Tensor GoldenAct(const std::string& name) {
  return ToTensor(Golden("lerobot_policy_act_v06").tensors.at(name));
}

class LerobotActPolicies : public ImportedPolicy {
 protected:
  task::LerobotImport Request() {
    task::LerobotImport request = RequestFor("policy_act_v06", kActTask);
    request.map = {"observation.state=joints,gripper"};
    return request;
  }
};

TEST_F(LerobotActPolicies, AnImportedActPlansWhatLerobotPlans) {
  const task::LerobotImport request = Request();
  task::ImportLerobotPolicy(request);
  const auto [config, policy] = planner::CreateFromCheckpoint(request.output, catalogue_);
  const Horizons horizons = Horizons::FromConfig(config);
  EXPECT_EQ(horizons.n_obs_steps, 1);
  EXPECT_EQ(horizons.n_action_steps, 8);  // of which the ensemble executes one
  EXPECT_EQ(horizons.temporal_ensemble_coeff, 0.01);
  const torch::Tensor state = GoldenAct("observation.state").unsqueeze(1);
  const TensorMap obs = {{"joints", state.slice(2, 0, 2)},
                         {"gripper", state.slice(2, 2, 3)},
                         {"a_world", GoldenAct("observation.environment_state").unsqueeze(1)}};
  NoiseSource noise = NoiseOfRows(2);
  EXPECT_LE(RelativeDifference(policy->PredictAction(obs, noise), GoldenAct("action")), 1e-5);
}

TEST_F(LerobotActPolicies, AnExportedActIsTheOneThatWasImported) {
  Export(Imported(Request()));
  LerobotPolicy before = ReadLerobotPolicy(kLerobotAct06);
  before.config.normalization_mapping.erase(LerobotFeatureType::kVisual);  // it has no camera
  const LerobotPolicy after = ReadLerobotPolicy(exported_);
  EXPECT_EQ(ToJson(after.config), ToJson(before.config));
  EXPECT_EQ(json::parse(ToJson(after.config)).at("n_action_steps"), 1);
  ExpectEqualWeights(after, before);
  for (const auto& [feature, stats] : before.stats) {
    EXPECT_EQ(after.stats.at(feature).mean, stats.mean) << feature;
    EXPECT_EQ(after.stats.at(feature).max, stats.max) << feature;
  }
}

TEST_F(LerobotActPolicies, WithoutATaskTheInputsAreTheKeys) {
  task::LerobotImport request = Request();
  request.experiment.config.clear();
  request.map.clear();
  EXPECT_THAT(task::ImportLerobotPolicy(request), testing::SizeIs(2));
  // what the import noted is not needed
  Export(Changed(run::Checkpoint::Open(request.output), "/lerobot", json::object()));
  EXPECT_EQ(ReadLerobotPolicy(exported_).config.inputs,
            ReadLerobotPolicy(kLerobotAct06).config.inputs);
}

TEST_F(LerobotActPolicies, WhatLerobotDoesNotHaveIsNamed) {
  const run::Checkpoint imported = Imported(Request());
  const auto fault = [&](ErrorCode code, const char* place, const json& value,
                         std::vector<std::string> map = {}) {
    return MessageOf(code, [&] { Export(Changed(imported, place, value), std::move(map)); });
  };
  EXPECT_THAT(fault(ErrorCode::kConfig, "/policy/params/env_state_keys", json::array()),
              HasSubstr("'a_world' is missing"));
  EXPECT_THAT(fault(ErrorCode::kUsage, "/horizon", 8, {"observation.state=gripper,joints"}),
              HasSubstr("expected the keys of policy.params.state_keys, joints, gripper"));
  EXPECT_THAT(fault(ErrorCode::kConfig, "/n_action_steps", 4),
              HasSubstr("n_action_steps is 4; LeRobot's policy has only 8 with temporal "
                        "ensembling: the mean of all plans of its horizon"));
  EXPECT_FALSE(fs::exists(exported_));
}

TEST_F(LerobotActPolicies, WithoutAnEnsembleLerobotExecutesAsManyActionsOfAPlan) {
  const run::Checkpoint chunks =
      Changed(Imported(Request()), "/temporal_ensemble_coeff", json(nullptr));
  Export(Changed(chunks, "/n_action_steps", 4));
  EXPECT_EQ(ReadLerobotPolicy(exported_).config.n_action_steps, 4);
}

TEST_F(LerobotActPolicies, FieldsThatCannotBeReproducedAreNamed) {
  json config = json::parse(ToJson(ReadLerobotPolicy(kLerobotAct06).config));
  const auto fault = [&](const char* field, const json& value) {
    json changed = config;
    changed[field] = value;
    return MessageOf(ErrorCode::kCheckpoint,
                     [&] { ParseLerobotPolicyConfig(changed.dump(), "config.json"); });
  };
  EXPECT_THAT(fault("replace_final_stride_with_dilation", true), HasSubstr("expected false"));
  EXPECT_THAT(fault("feedforward_activation", "glu"), HasSubstr("relu or gelu"));
  EXPECT_THAT(fault("n_obs_steps", 2), HasSubstr("n_obs_steps: expected 1"));
  EXPECT_THAT(fault("horizon", 8), HasSubstr("the field 'horizon' is unknown"));
  EXPECT_THAT(fault("type", "vqbet"), HasSubstr("expected diffusion or act, found vqbet"));
}

}  // namespace
}  // namespace dp_bench::interop
