// Reading LeRobot's diffusion policies in both layouts, and naming what is wrong with them. The
// folders in tests/data were written by LeRobot (tests/golden/generate/lerobot_policies.py).
#include "interop/policy_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/atomic_file.h"
#include "core/json.h"
#include "run/safetensors.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::interop {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const fs::path kTestData = DPB_SOURCE_DIR "/tests/data/lerobot";
constexpr const char* kPreStats = "policy_preprocessor_step_3_normalizer_processor.safetensors";
constexpr const char* kPostStats = "policy_postprocessor_step_0_unnormalizer_processor.safetensors";

// A copy of a policy that LeRobot wrote, to be damaged.
class LerobotPolicyFiles : public testing::Test {
 protected:
  void Copy(const char* name) {
    fs::remove_all(folder_);
    fs::copy(kTestData / name, folder_, fs::copy_options::recursive);
  }

  void ChangeJson(const char* file, const std::function<void(json&)>& change) {
    json content = core::ReadJsonFile(folder_ / file, 1 << 20);
    change(content);
    core::WriteFileAtomically(folder_ / file, content.dump());
  }

  void ChangeTensors(const char* file, const std::function<void(ArrayMap&)>& change) {
    ArrayMap tensors = run::ReadSafetensors(folder_ / file).tensors;
    change(tensors);
    run::WriteSafetensors(folder_ / file, tensors);
  }

  std::string Fault() {
    return MessageOf(ErrorCode::kCheckpoint, [&] { ReadLerobotPolicy(folder_); });
  }

  std::string FaultWithConfig(const std::function<void(json&)>& change) {
    Copy("policy_v06");
    ChangeJson("config.json", change);
    return Fault();
  }

  ScratchFolder scratch_;
  fs::path folder_ = scratch_.path() / "policy";
};

TEST_F(LerobotPolicyFiles, BothLayoutsHaveTheSameContent) {
  Copy("policy_v06");
  const LerobotPolicy with_processors = ReadLerobotPolicy(folder_);
  Copy("policy_v03");
  const LerobotPolicy legacy = ReadLerobotPolicy(folder_);

  EXPECT_EQ(with_processors.config.inputs, legacy.config.inputs);
  EXPECT_EQ(with_processors.config.normalization_mapping, legacy.config.normalization_mapping);
  ASSERT_EQ(with_processors.weights.size(), legacy.weights.size());
  for (const auto& [name, array] : legacy.weights) {
    EXPECT_TRUE(with_processors.weights.contains(name)) << name;
  }
  const KeyStats& state = legacy.stats.at("observation.state");
  EXPECT_EQ(state.mean.size(), 3U);
  EXPECT_EQ(legacy.stats.at("action").min, with_processors.stats.at("action").min);
}

TEST_F(LerobotPolicyFiles, WhatIsWrittenIsReadBack) {
  Copy("policy_v06");
  const LerobotPolicy policy = ReadLerobotPolicy(folder_);
  const fs::path copy = scratch_.path() / "copy";
  fs::create_directory(copy);
  WriteLerobotPolicy(copy, policy);
  const LerobotPolicy again = ReadLerobotPolicy(copy);

  EXPECT_EQ(again.config.inputs, policy.config.inputs);
  EXPECT_EQ(again.config.action, policy.config.action);
  EXPECT_EQ(again.config.normalization_mapping, policy.config.normalization_mapping);
  EXPECT_EQ(ToJson(again.config), ToJson(policy.config));
  EXPECT_EQ(again.weights.size(), policy.weights.size());
  EXPECT_EQ(again.stats.at("observation.environment_state").max,
            policy.stats.at("observation.environment_state").max);
}

TEST_F(LerobotPolicyFiles, NamesLoseWhatWrappersPutIntoThem) {
  for (const char* const folder : {"policy_v03", "policy_v06"}) {
    for (const auto& [before, within] :
         std::vector<std::pair<std::string, std::string>>{{"", "_orig_mod."},
                                                          {"module.", ""},
                                                          {"_orig_mod.module.", ""},
                                                          {"module.", "module."},
                                                          {"model.", ""},
                                                          {"net.policy.module.", "_orig_mod."}}) {
      Copy(folder);
      const LerobotPolicy wanted = ReadLerobotPolicy(folder_);
      ChangeTensors("model.safetensors", [&before = before, &within = within](ArrayMap& tensors) {
        const std::string place = "diffusion.unet.";
        ArrayMap marked;
        for (auto& [name, array] : tensors) {
          const bool is_inside = name.starts_with(place);
          marked[before + (is_inside ? place + within + name.substr(place.size()) : name)] = array;
        }
        tensors = marked;
      });
      const LerobotPolicy policy = ReadLerobotPolicy(folder_);
      ASSERT_EQ(policy.weights.size(), wanted.weights.size()) << before << within;
      for (const auto& [name, array] : wanted.weights) {
        ASSERT_TRUE(policy.weights.contains(name)) << before << within << name;
      }
      EXPECT_EQ(policy.stats.at("action").min, wanted.stats.at("action").min);
    }
  }
}

TEST_F(LerobotPolicyFiles, MissingStatisticsAreNamed) {
  Copy("policy_v06");
  ChangeTensors(kPreStats, [](ArrayMap& stats) { stats.erase("observation.state.std"); });
  EXPECT_THAT(Fault(), HasSubstr("the statistic std of 'observation.state' is missing"));

  Copy("policy_v06");
  ChangeTensors(kPostStats, [](ArrayMap& stats) { stats.erase("action.max"); });
  EXPECT_THAT(Fault(), HasSubstr("the statistic max of 'action' is missing"));

  Copy("policy_v03");
  ChangeTensors("model.safetensors", [](ArrayMap& tensors) {
    tensors.erase("normalize_inputs.buffer_observation_environment_state.min");
  });
  EXPECT_THAT(Fault(), HasSubstr("the statistic min of 'observation.environment_state'"));
}

TEST_F(LerobotPolicyFiles, StatisticsThatWereNeverComputedAreNamed) {
  Copy("policy_v03");  // LeRobot starts them as infinities
  ChangeTensors("model.safetensors", [](ArrayMap& tensors) {
    tensors.at("unnormalize_outputs.buffer_action.min").as<float>()[1] =
        std::numeric_limits<float>::infinity();
  });
  EXPECT_THAT(Fault(), HasSubstr("the statistic min of 'action' is inf in dimension 1"));
}

TEST_F(LerobotPolicyFiles, StatisticsOfOtherDataAreNamed) {
  Copy("policy_v06");
  ChangeTensors(kPreStats, [](ArrayMap& stats) {
    stats["observation.state.mean"] = Array(DType::kFloat32, {7});
  });
  EXPECT_THAT(Fault(), HasSubstr("the statistic mean of 'observation.state': expected 3 values, "
                                 "found 7"));
}

TEST_F(LerobotPolicyFiles, SwappedCamerasAreNamed) {
  Copy("policy_v06");
  const json camera = {{"type", "VISUAL"}, {"shape", {3, 8, 8}}};
  ChangeJson("config.json", [&](json& config) {
    config["input_features"]["observation.images.a"] = camera;
    config["input_features"]["observation.images.b"] = camera;
  });
  ChangeJson("policy_preprocessor.json", [&](json& file) {
    file["steps"][3]["config"]["features"]["observation.images.b"] = camera;
  });
  EXPECT_THAT(Fault(), HasSubstr("cameras were swapped"));
}

TEST_F(LerobotPolicyFiles, UnknownProcessorsAreNamed) {
  Copy("policy_v06");
  ChangeJson("policy_preprocessor.json", [](json& file) {
    file["steps"].push_back({{"registry_name", "delta_actions_processor"}, {"config", {}}});
  });
  EXPECT_THAT(Fault(), HasSubstr("delta_actions_processor"));

  Copy("policy_v06");
  ChangeJson("policy_postprocessor.json", [](json& file) { file["steps"] = json::array(); });
  EXPECT_THAT(Fault(), HasSubstr("expected a step unnormalizer_processor"));
}

TEST_F(LerobotPolicyFiles, SettingsOfProcessorsThatChangeThePolicyAreNamed) {
  const auto change = [&](std::size_t step, const char* setting, const json& value) {
    ChangeJson("policy_preprocessor.json",
               [&](json& file) { file["steps"][step]["config"][setting] = value; });
  };
  Copy("policy_v06");
  change(3, "normalize_observation_keys", json::array({"observation.state"}));
  EXPECT_THAT(Fault(), HasSubstr("steps.3.config: normalize_observation_keys: expected null, found "
                                 R"(["observation.state"])"));
  change(3, "normalize_observation_keys", nullptr);
  change(2, "float_dtype", "bfloat16");
  EXPECT_THAT(Fault(), HasSubstr("steps.2.config: float_dtype: expected float32 or null, found "
                                 "'bfloat16'"));
  for (const json& same : {json("float32"), json("float"), json(nullptr)}) {
    change(2, "float_dtype", same);
    ReadLerobotPolicy(folder_);
  }
}

TEST_F(LerobotPolicyFiles, UnknownNormalizationIsNamed) {
  Copy("policy_v06");
  ChangeJson("policy_preprocessor.json",
             [](json& file) { file["steps"][3]["config"]["norm_map"]["STATE"] = "QUANTILES"; });
  EXPECT_THAT(Fault(), HasSubstr("found 'QUANTILES'"));
}

TEST_F(LerobotPolicyFiles, StatisticsOutsideTheFolderAreRefused) {
  Copy("policy_v06");
  ChangeJson("policy_preprocessor.json",
             [](json& file) { file["steps"][3]["state_file"] = "../other.safetensors"; });
  EXPECT_THAT(Fault(), HasSubstr("expected the name of a file, found '../other.safetensors'"));
}

TEST_F(LerobotPolicyFiles, TruncatedFilesAreNamed) {
  Copy("policy_v06");
  fs::resize_file(folder_ / "model.safetensors", fs::file_size(folder_ / "model.safetensors") / 2);
  EXPECT_THAT(Fault(), HasSubstr("model.safetensors"));

  Copy("policy_v06");
  fs::resize_file(folder_ / "policy_preprocessor.json", 100);
  EXPECT_THAT(Fault(), HasSubstr("policy_preprocessor.json"));
}

TEST_F(LerobotPolicyFiles, FieldsThatCannotBeReproducedAreNamed) {
  const auto set = [](const char* field, const json& value) {
    return [=](json& config) { config[field] = value; };
  };
  EXPECT_THAT(FaultWithConfig(set("prediction_type", "v_prediction")),
              HasSubstr("prediction_type: expected epsilon or sample, found v_prediction"));
  EXPECT_THAT(FaultWithConfig(set("noise_scheduler_type", "LCM")),
              HasSubstr("noise_scheduler_type: expected DDPM or DDIM, found LCM"));
  EXPECT_THAT(FaultWithConfig(set("vision_backbone", "resnet34")),
              HasSubstr("vision_backbone: expected resnet18, found resnet34"));
  EXPECT_THAT(FaultWithConfig(set("type", "vqbet")),
              HasSubstr("type: expected diffusion or act, found vqbet"));
  EXPECT_THAT(FaultWithConfig(set("use_attention", true)),
              HasSubstr("the field 'use_attention' is unknown"));
  EXPECT_THAT(FaultWithConfig(set("horizon", "16")), HasSubstr("horizon"));
  EXPECT_THAT(FaultWithConfig(set("optimizer_betas", {0.9})),
              HasSubstr("optimizer_betas: expected two numbers, found 1"));
  EXPECT_THAT(FaultWithConfig([](json& config) { config.erase("use_group_norm"); }),
              HasSubstr("use_group_norm"));
  EXPECT_THAT(
      FaultWithConfig([](json& config) { config["input_features"].erase("observation.state"); }),
      HasSubstr("input_features: expected 'observation.state'"));
  EXPECT_THAT(FaultWithConfig([](json& config) {
                config["input_features"]["observation.state"]["shape"] = {0};
              }),
              HasSubstr("expected 1 positive sizes, found [0]"));
  EXPECT_THAT(FaultWithConfig([](json& config) {
                config["output_features"]["gripper"] = {{"type", "ACTION"}, {"shape", {1}}};
              }),
              HasSubstr("output_features: expected 'action' alone"));
}

TEST(LerobotPolicyConfigFile, CropOfResizedImagesIsARatio) {
  LerobotPolicyConfig config = ReadLerobotPolicy(kTestData / "policy_v06").config;
  config.resize_shape = {61, 47};
  for (std::int64_t height = 20; height <= 60; ++height) {
    // what LeRobot makes of one ratio
    const double ratio = (static_cast<double>(height) + 0.3) / 61.0;
    config.crop_shape = {height, static_cast<std::int64_t>(47.0 * ratio)};
    const LerobotPolicyConfig again = ParseLerobotPolicyConfig(ToJson(config), "config.json");
    EXPECT_EQ(again.crop_shape, config.crop_shape);
  }
  config.crop_shape = {60, 20};
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { ToJson(config); }), HasSubstr("[60, 20]"));
}

}  // namespace
}  // namespace dp_bench::interop
