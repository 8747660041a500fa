// A transformer whose weights decide what each action token looks at, and what the maps say of it.
#include "inspect/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>

#include "dp_bench/policy/networks/diffusion_policy.h"
#include "evaluate/policy_planning.h"
#include "harness/data/fake_dataset.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"
#include "support/small_policy.h"
#include "train/fit_normalizer.h"

namespace dp_bench::inspect {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using torch::Tensor;

constexpr double kTolerance = 0.01;  // what is left to the other tokens of a softmax
constexpr std::int64_t kWidth = 16;  // of a token; 8 in each of the two heads

// agent_pos [2] and goal [2], T 8, To 2, Ta 4.
PolicySpec TwoKeys() {
  PolicySpec spec = SmallSpec();
  spec.shape_meta.obs.push_back({.name = "goal", .shape = {2}});
  return spec;
}

std::unique_ptr<Policy> MakeTransformer(const char* settings) {
  torch::manual_seed(3);
  const Config params = Config::FromJson(settings);
  policy::DiffusionPolicy::Model model;
  model.obs_encoder = policy::MakeHybridObsEncoder(params, TwoKeys(), *model.module);
  model.channels =
      policy::DenoiserChannels::FromConfig(params, TwoKeys(), model.obs_encoder->feature_dim());
  model.denoiser =
      policy::MakeTransformerDenoiser(params, TwoKeys(), model.channels, *model.module);
  auto policy =
      std::make_unique<policy::DiffusionPolicy>("transformer", params, TwoKeys(), std::move(model));
  policy->SetNormalizer(train::NeutralNormalizer(TwoKeys().shape_meta, {}));
  return policy;
}

Tensor Parameter(Policy& policy, const std::string& ending) {
  for (const auto& item : policy.module().named_parameters()) {
    if (item.key().ends_with(ending)) return item.value();
  }
  ADD_FAILURE() << "no parameter " << ending;
  return {};
}

// Condition token s has a large value in place s, and action token i in place `targets[i]`; queries
// and keys of head 1 are the tokens themselves, queries of head 2 are zero.
void PlantAttention(Policy& policy, const std::vector<int>& targets) {
  const torch::NoGradGuard no_grad;
  const auto zero = [&](const char* ending) { Parameter(policy, ending).zero_(); };
  for (const char* ending :
       {"input_emb.weight", "cond_obs_emb.weight", "encoder.0.weight", "encoder.2.weight",
        "self_attn.out_proj.weight", "multihead_attn.in_proj_weight", ".pos_emb", "cond_pos_emb"}) {
    zero(ending);
  }
  const Tensor one = torch::eye(kWidth);
  Parameter(policy, "encoder.0.weight").narrow(0, 0, kWidth).copy_(one);
  Parameter(policy, "encoder.2.weight").narrow(1, 0, kWidth).copy_(one);
  Tensor qkv = Parameter(policy, "multihead_attn.in_proj_weight");
  qkv.narrow(0, 0, kWidth / 2).copy_(one.narrow(0, 0, kWidth / 2));
  qkv.narrow(0, kWidth, kWidth).copy_(one);
  for (int s = 0; s < 3; ++s) Parameter(policy, "cond_pos_emb")[0][s][s] = 10.0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Parameter(policy, ".pos_emb")[0][static_cast<std::int64_t>(i)][targets[i]] = 10.0;
  }
  // agent_pos adds three times as much to a token as goal
  Parameter(policy, "cond_obs_emb.weight")[14][0] = 0.03;
  Parameter(policy, "cond_obs_emb.weight")[15][2] = 0.01;
  policy.WeightsChanged();
}

control::RecordedObs Ones(const Policy& policy) {
  control::RecordedObs recorded = evaluate::SyntheticObs(policy.spec());
  for (auto& [key, values] : recorded.obs) std::ranges::fill(values.as<float>(), 1.0F);
  return recorded;
}

constexpr const char* kPlanted =
    R"({"n_layer": 1, "n_head": 2, "n_emb": 16, "p_drop_emb": 0.0, "p_drop_attn": 0.0,
        "noise_scheduler": {"type": "ddim", "num_train_timesteps": 20, "num_inference_steps": 5}})";

AttentionInspection PlantedInspection() {
  const auto policy = MakeTransformer(kPlanted);
  PlantAttention(*policy, {0, 1, 2, 2, 2, 2, 2, 2});
  AttentionInspection inspection = InspectAttention(*policy, torch::kCPU, Ones(*policy));
  inspection.policy = "transformer";
  inspection.task = "planted";
  inspection.observation = "ones";
  return inspection;
}

void ExpectRow(const std::vector<double>& row, const std::vector<double>& expected) {
  ASSERT_EQ(row.size(), expected.size());
  for (std::size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(row[i], expected[i], kTolerance) << i;
}

TEST(Attention, MapsSayWhichObservationAndStepAPlantedActionLooksAt) {
  const AttentionInspection inspection = PlantedInspection();
  EXPECT_EQ(inspection.n_steps, 5U);
  ASSERT_EQ(inspection.maps.size(), 2U);
  EXPECT_EQ(inspection.maps[0].name, "decoder layer 1, actions to actions");
  const AttentionMap& map = inspection.maps[1];
  EXPECT_EQ(map.name, "decoder layer 1, actions to condition");
  EXPECT_THAT(map.rows, ElementsAre("action t-1", "action t", "action t+1", "action t+2",
                                    "action t+3", "action t+4", "action t+5", "action t+6"));
  EXPECT_THAT(map.columns,
              ElementsAre("timestep", "agent_pos t-1", "goal t-1", "agent_pos t", "goal t"));
  ASSERT_EQ(map.heads.size(), 2U);
  ExpectRow(map.heads[0][0], {1.0, 0.0, 0.0, 0.0, 0.0});
  ExpectRow(map.heads[0][1], {0.0, 0.75, 0.25, 0.0, 0.0});
  ExpectRow(map.heads[0][7], {0.0, 0.0, 0.0, 0.75, 0.25});
  const double third = 1.0 / 3.0;  // the second head sees no difference
  ExpectRow(map.heads[1][4], {third, 0.75 * third, 0.25 * third, 0.75 * third, 0.25 * third});
}

TEST(Attention, MeansAreOverHeadsLayersAndByDenoisingStep) {
  const AttentionInspection inspection = PlantedInspection();
  ASSERT_EQ(inspection.means.size(), 2U);
  ExpectRow(inspection.means[0].Mean()[0], {2.0 / 3.0, 0.125, 1.0 / 24, 0.125, 1.0 / 24});
  EXPECT_EQ(inspection.means[1].rows.size(), 5U);
  EXPECT_THAT(inspection.means[1].rows.front(), HasSubstr("timestep 1"));
  EXPECT_EQ(inspection.means[1].columns, inspection.means[0].columns);
  for (const AttentionMap& map : inspection.maps) {
    for (const AttentionShares& head : map.heads) {
      for (const std::vector<double>& row : head) {
        EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1.0, 1e-5);
      }
    }
  }
}

TEST(Attention, TextJsonAndPageHaveTheMaps) {
  const AttentionInspection inspection = PlantedInspection();
  const std::string text = ToText(inspection);
  EXPECT_THAT(text, HasSubstr("Attention of transformer on planted, ones"));
  EXPECT_THAT(text, HasSubstr("[2] agent_pos t-1"));
  EXPECT_THAT(text, HasSubstr("    head 1   agent_pos t 0.56, goal t 0.19, timestep 0.1"));
  const nlohmann::json json = ToJson(inspection);
  EXPECT_EQ(json.at("maps").at(1).at("heads").size(), 2U);
  EXPECT_EQ(json.at("means").at(0).at("mean").size(), 8U);

  const ScratchFolder scratch;
  WriteAttentionPage(inspection, scratch.path() / "attention.html");
  std::stringstream page;
  page << std::ifstream(scratch.path() / "attention.html").rdbuf();
  EXPECT_THAT(page.str(), HasSubstr("title=\"action t → agent_pos t-1: 0.5"));
  EXPECT_THAT(page.str(), HasSubstr("decoder layer 1, actions to condition"));
  EXPECT_THAT(page.str(), testing::Not(HasSubstr("src=")));
}

TEST(Attention, WithoutMemoryTheTimestepIsAToken) {
  const auto policy = MakeTransformer(
      R"({"n_layer": 2, "n_head": 2, "n_emb": 16, "time_as_cond": false, "obs_as_cond": false})");
  const AttentionInspection inspection =
      InspectAttention(*policy, torch::kCPU, evaluate::SyntheticObs(policy->spec()));
  ASSERT_EQ(inspection.maps.size(), 2U);
  EXPECT_EQ(inspection.maps[1].name, "encoder layer 2, actions to actions");
  EXPECT_EQ(inspection.maps[1].rows.size(), 9U);
  EXPECT_EQ(inspection.maps[1].columns[0], "timestep");
  EXPECT_EQ(inspection.maps[1].columns[2], "action t");
  EXPECT_TRUE(inspection.means.empty());
}

TEST(Attention, LayersOverTheConditionHaveMapsToo) {
  const auto policy =
      MakeTransformer(R"({"n_layer": 1, "n_head": 2, "n_emb": 16, "n_cond_layers": 1})");
  const AttentionInspection inspection =
      InspectAttention(*policy, torch::kCPU, evaluate::SyntheticObs(policy->spec()));
  ASSERT_EQ(inspection.maps.size(), 3U);
  EXPECT_EQ(inspection.maps[0].name, "condition encoder layer 1, condition to condition");
  EXPECT_THAT(inspection.maps[0].rows, ElementsAre("timestep", "observation t-1", "observation t"));
}

// The maps must not change what the policy plans.
TEST(Attention, IsOfTheSamePlan) {
  const auto policy = MakeTransformer(kPlanted);
  NoiseSource noise = NoiseOfRows(1);
  const TensorMap obs = {{"agent_pos", torch::zeros({1, 2, 2})}, {"goal", torch::ones({1, 2, 2})}};
  const Tensor before = policy->PredictAction(obs, noise);
  InspectAttention(*policy, torch::kCPU, evaluate::SyntheticObs(policy->spec()));
  NoiseSource again = NoiseOfRows(1);
  EXPECT_TRUE(torch::equal(policy->PredictAction(obs, again), before));
}

class WithoutAttention final : public Policy {
 public:
  const PolicySpec& spec() const override { return spec_; }
  void SetNormalizer(const Normalizer&) override {}
  LossOutput ComputeLoss(const Batch&, NoiseSource&) override { return {}; }
  Tensor PredictAction(const TensorMap&, NoiseSource& noise) override {
    return torch::zeros({noise.batch_size(), 4, 2});
  }
  torch::nn::Module& module() override { return module_; }

 private:
  PolicySpec spec_ = SmallSpec();
  torch::nn::Module module_;
};

TEST(Attention, APolicyWithoutAnyIsRefused) {
  WithoutAttention policy;
  EXPECT_THAT(
      MessageOf(
          ErrorCode::kUsage,
          [&] { InspectAttention(policy, torch::kCPU, evaluate::SyntheticObs(policy.spec())); }),
      HasSubstr("no attention: expected transformer, rgbd_fusion"));
}

TEST(Attention, ADemonstrationIsObservedUpToItsStepAndPaddedBeforeItsStart) {
  const data::FakeDataset dataset({5, 12});
  PolicySpec spec = SmallSpec();
  spec.shape_meta.obs = {{.name = "state", .shape = {3}, .dtype = DType::kFloat64}};
  const auto first_of = [&](std::int64_t episode, std::int64_t step) {
    const control::RecordedObs recorded = ObsOfDemonstration(dataset, spec, episode, step);
    const auto values = recorded.obs.at("state").as<float>();  // the dataset's are float64
    return std::vector<double>{values[0], values[3]};          // of both steps
  };
  EXPECT_THAT(first_of(0, 0), ElementsAre(0.0, 0.0));
  EXPECT_THAT(first_of(0, 3), ElementsAre(20.0, 30.0));
  EXPECT_THAT(first_of(1, 0), ElementsAre(50.0, 50.0));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { first_of(2, 0); }),
              HasSubstr("expected 0 to 1, found 2"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { first_of(1, 7); }),
              HasSubstr("steps 0 to 6, found 7"));
}

}  // namespace
}  // namespace dp_bench::inspect
