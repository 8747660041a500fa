// Flow matching and MIP compared with a plain PyTorch reference, what every objective shares, and
// settings that an objective does not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dp_bench/policy/networks/diffusion_policy.h"
#include "policy/objectives/objective.h"
#include "policy/sampling.h"
#include "policy/stage_recorder.h"
#include "support/difference.h"
#include "support/error_of.h"
#include "support/golden.h"
#include "support/small_policy.h"
#include "support/tanh_policy.h"

namespace dp_bench::policy {
namespace {

using testing::HasSubstr;

// float32 sums of order 1; the normals of the reference are LibTorch's, rounded once more
constexpr double kTolerance = 2e-6;
// The loss of MIP is a hundred times as large.
constexpr double kRelativeTolerance = 1e-5;

torch::Tensor ObjectiveGolden(const std::string& name) {
  return ToTensor(Golden("objectives").tensors.at(name));
}

Batch GoldenBatch() {
  return {.obs = {{"agent_pos", ObjectiveGolden("input.condition")}},
          .action = ObjectiveGolden("input.action"),
          .is_pad = torch::zeros({3, 8}, torch::kBool)};
}

// What each sampling step makes of the action, and the predicted x_0 of each.
struct Sampled {
  std::vector<torch::Tensor> samples;
  std::vector<torch::Tensor> x_0;
  std::vector<double> times;
};

Sampled SampleWith(DiffusionPolicy& policy, const TensorMap& obs) {
  Sampled sampled;
  const StageRecorder recorder([&](std::string_view name, const torch::Tensor& tensor) {
    if (name == "sample") sampled.samples.push_back(tensor.clone());
    if (name == "denoised action") sampled.x_0.push_back(tensor.clone());
    if (name == "timestep") sampled.times.push_back(tensor.item<double>());
  });
  NoiseSource noise = NoiseOfRows(3);
  policy.PredictAction(obs, noise);
  return sampled;
}

TEST(Objectives, LossesEqualThoseOfTheReference) {
  int n_cases = 0;
  for (const auto& [name, params] : Golden("objectives").metadata) {
    if (!name.starts_with("loss.")) continue;
    SCOPED_TRACE(params);
    NoiseSource noise = NoiseOfRows(3);
    const double loss =
        MakeTanhPolicy(params)->ComputeLoss(GoldenBatch(), noise).loss.item<double>();
    const double expected = ObjectiveGolden(name).item<double>();
    EXPECT_NEAR(loss, expected, kRelativeTolerance * expected);
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 11);
}

TEST(Objectives, SampledSequencesEqualThoseOfTheReference) {
  int n_cases = 0;
  for (const auto& [name, params] : Golden("objectives").metadata) {
    if (!name.starts_with("path.")) continue;
    SCOPED_TRACE(params);
    const auto policy = MakeTanhPolicy(params);
    const Sampled sampled = SampleWith(*policy, GoldenBatch().obs);
    const torch::Tensor expected = ObjectiveGolden(name);
    ASSERT_EQ(std::ssize(sampled.samples), expected.size(0));
    EXPECT_LE(Difference(torch::stack(sampled.samples), expected), kTolerance);
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 10);
}

TEST(Objectives, AFlowStepNotesTheActionToWhichItsVelocityLeads) {
  const auto policy = MakeTanhPolicy(R"({"objective": "flow_matching",
                                     "flow_matching": {"num_inference_steps": 4}})");
  const Sampled sampled = SampleWith(*policy, GoldenBatch().obs);
  EXPECT_THAT(sampled.times, testing::ElementsAre(1.0, 0.75, 0.5, 0.25));
  EXPECT_TRUE(torch::equal(sampled.x_0.back(), sampled.samples.back()));
}

TEST(Objectives, MipPlansInTwoPassesWithoutNoise) {
  const auto policy = MakeTanhPolicy(R"({"objective": "mip"})");
  const auto plan = [&](std::uint64_t major) {
    NoiseSource noise = NoiseOfRows(3, major);
    return policy->PredictAction(GoldenBatch().obs, noise);
  };
  EXPECT_TRUE(torch::equal(plan(1), plan(2)));
  EXPECT_EQ(DenoiserOf(*policy).seen.size(), 4U);
  EXPECT_THAT(DenoiserOf(*policy).conditioned_times, testing::ElementsAre(0.0, 90.0));
}

TEST(Objectives, RegressionPlansInOnePassFromZeros) {
  const auto policy = MakeTanhPolicy(R"({"objective": "regression"})");
  const auto plan = [&](std::uint64_t major) {
    NoiseSource noise = NoiseOfRows(3, major);
    return policy->PredictAction(GoldenBatch().obs, noise);
  };
  const torch::Tensor action = plan(1);
  EXPECT_TRUE(torch::equal(action, plan(2)));
  TanhDenoiser& denoiser = DenoiserOf(*policy);
  ASSERT_EQ(denoiser.seen.size(), 2U);
  EXPECT_EQ(denoiser.seen[0].abs().max().item<double>(), 0.0);
  EXPECT_THAT(denoiser.conditioned_times, testing::ElementsAre(0.0));
  // the answer of the network is the plan
  const torch::Tensor shift = 0.5 * GoldenBatch().obs.at("agent_pos").mean(c10::IntArrayRef{1, 2});
  EXPECT_LE(Difference(action[1], torch::tanh(shift[1]).expand_as(action[1])), kTolerance);
}

TEST(Objectives, TheLossOfRegressionIsTheSquaredErrorOfItsPlanWhateverTheNoise) {
  const auto policy = MakeTanhPolicy(R"({"objective": "regression"})");
  NoiseSource noise = NoiseOfRows(3);
  const double loss = policy->ComputeLoss(GoldenBatch(), noise).loss.item<double>();
  const Batch batch = GoldenBatch();
  const torch::Tensor plan =
      torch::tanh(0.5 * batch.obs.at("agent_pos").mean(c10::IntArrayRef{1, 2})).view({3, 1, 1});
  EXPECT_NEAR(loss, torch::square(plan - batch.action).mean().item<double>(), kTolerance);
  NoiseSource other = NoiseOfRows(3, /*major=*/5);
  EXPECT_EQ(policy->ComputeLoss(batch, other).loss.item<double>(), loss);
}

// The network sees every row at its own time of training, between 0 and 100.
TEST(Objectives, FlowMatchingTrainsAtTimesOfTheWholeRange) {
  for (const char* distribution : {"beta", "uniform", "logit_normal"}) {
    const auto policy = MakeTanhPolicy(R"({"objective": "flow_matching", "flow_matching":
                                       {"time_distribution": ")" +
                                       std::string(distribution) + "\"}}");
    torch::Tensor times;
    {
      const StageRecorder recorder([&](std::string_view name, const torch::Tensor& tensor) {
        if (name == "timesteps") times = tensor.clone();
      });
      NoiseSource noise = NoiseOfRows(500);
      policy->ComputeLoss(ZeroBatch(500), noise);
    }
    EXPECT_GE(times.min().item<double>(), 0.0);
    EXPECT_LE(times.max().item<double>(), 100.0);
    // beta prefers noise: the mean of 1.5 / 2.5 with 3 standard deviations of the mean
    const double mean = std::string_view(distribution) == "beta" ? 60.0 : 50.0;
    EXPECT_NEAR(times.mean().item<double>(), mean, 4.0) << distribution;
    EXPECT_GT(times.std().item<double>(), 15.0) << distribution;
  }
}

// with inpainting, the network always sees the observed steps as they are
TEST(Objectives, AllInpaintObservations) {
  for (const char* objective : {"diffusion", "flow_matching", "mip", "regression"}) {
    SCOPED_TRACE(objective);
    const auto policy =
        MakeTanhPolicy(R"({"obs_as_global_cond": false, "flow_matching": {"sampler": "heun"},
                       "noise_scheduler": {"type": "heun", "num_inference_steps": 4},
                       "objective": ")" +
                       std::string(objective) + "\"}");
    Batch batch = GoldenBatch();
    batch.obs["agent_pos"] = torch::linspace(-0.9, 0.9, 3 * 8 * 2).view({3, 8, 2});
    const torch::Tensor observed = batch.obs["agent_pos"].slice(1, 0, 2);
    NoiseSource noise = NoiseOfRows(3);
    policy->ComputeLoss(batch, noise);
    policy->PredictAction({{"agent_pos", observed}}, noise);
    ASSERT_FALSE(DenoiserOf(*policy).seen.empty());
    for (const torch::Tensor& sequence : DenoiserOf(*policy).seen) {
      EXPECT_TRUE(torch::equal(sequence.slice(2, 2).slice(1, 0, 2), observed));
    }
  }
}

// a padded step counts as zero, whatever the objective
TEST(Objectives, AllLeavePaddedStepsOutOfTheLoss) {
  for (const char* objective : {"diffusion", "flow_matching", "mip", "regression"}) {
    const auto policy = MakeTanhPolicy(R"({"do_mask_loss_for_padding": true, "objective": ")" +
                                       std::string(objective) + "\"}");
    Batch batch = GoldenBatch();
    batch.is_pad.fill_(true);
    NoiseSource noise = NoiseOfRows(3);
    EXPECT_EQ(policy->ComputeLoss(batch, noise).loss.item<double>(), 0.0) << objective;
  }
}

TEST(Objectives, SectionsOfOthersMayStayAndAreChecked) {
  const std::string all = R"("noise_scheduler": {"num_train_timesteps": 20},
                             "flow_matching": {"num_inference_steps": 3}, "mip": {"t_star": 0.8}})";
  for (const char* objective : {"diffusion", "flow_matching", "mip", "regression"}) {
    EXPECT_NO_THROW(MakeTanhPolicy("{\"objective\": \"" + std::string(objective) + "\"," + all));
  }
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig, [] { MakeTanhPolicy(R"({"flow_matching": {"steps": 3}})"); }),
      HasSubstr("flow_matching.steps"));
  EXPECT_THAT(
      MessageOf(
          ErrorCode::kConfig,
          [] { MakeTanhPolicy(R"({"objective": "mip", "noise_scheduler": {"type": "ddpn"}})"); }),
      HasSubstr("noise_scheduler.type"));
}

TEST(Objectives, SettingsThatAnObjectiveDoesNotHaveAreRefusedByName) {
  const auto error_of = [](const char* params) {
    return MessageOf(ErrorCode::kConfig, [&] { MakeTanhPolicy(params); });
  };
  EXPECT_THAT(error_of(R"({"objective": "flow_matching", "loss_weighting": "min_snr"})"),
              HasSubstr("loss_weighting: expected none with objective flow_matching, found "
                        "min_snr"));
  EXPECT_THAT(error_of(R"({"objective": "mip", "loss_weighting": "table",
                           "loss_weighting_table": [1]})"),
              HasSubstr("expected none with objective mip"));
  EXPECT_THAT(error_of(R"({"objective": "score"})"), HasSubstr("objective"));
  EXPECT_THAT(error_of(R"({"objective": "mip", "mip": {"t_star": 1}})"), HasSubstr("t_star"));
  EXPECT_THAT(error_of(R"({"objective": "flow_matching", "flow_matching": {"sampler": "ddim"}})"),
              HasSubstr("flow_matching.sampler"));
}

}  // namespace
}  // namespace dp_bench::policy
