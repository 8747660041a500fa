// Real-time chunking compared with LeRobot's, and what holds for every objective.
#include "policy/guidance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "control/chunking_config.h"
#include "dp_bench/policy/networks/diffusion_policy.h"
#include "policy/stage_recorder.h"
#include "support/difference.h"
#include "support/golden.h"
#include "support/small_policy.h"
#include "support/tanh_policy.h"

namespace dp_bench::policy {
namespace {

constexpr int kPrefixDelay = 2;  // as in tests/golden/generate/rtc.py
constexpr double kGuidanceTolerance = 1e-6;

torch::Tensor RtcGolden(const std::string& name) {
  return ToTensor(Golden("rtc").tensors.at(name));
}

control::PrefixSchedule ScheduleOf(const std::string& name) {
  if (name == "zeros") return control::PrefixSchedule::kZeros;
  if (name == "ones") return control::PrefixSchedule::kOnes;
  if (name == "linear") return control::PrefixSchedule::kLinear;
  return control::PrefixSchedule::kExponential;
}

// The committed actions of the reference, behind which a chunk of SmallSpec has nothing.
ChunkPrefix PrefixWith(const std::string& schedule, bool has_full_jacobian) {
  const torch::Tensor committed = RtcGolden("input.committed");
  const int n_steps = SmallSpec().horizons.n_action_steps;
  const auto n_committed = static_cast<int>(committed.size(1));
  const std::vector<float> weights =
      control::PrefixWeights(kPrefixDelay, n_committed, n_steps, ScheduleOf(schedule));
  return {.actions = torch::constant_pad_nd(committed, {0, 0, 0, n_steps - n_committed}),
          .weights = torch::tensor(weights).expand({committed.size(0), n_steps}).contiguous(),
          .max_guidance_weight = 5.0,
          .has_full_jacobian = has_full_jacobian};
}

torch::Tensor ContinuedPlan(Policy& policy, const ChunkPrefix& prefix) {
  NoiseSource noise = NoiseOfRows(3);
  return policy.ContinueAction({{"agent_pos", RtcGolden("input.condition")}}, prefix, noise);
}

TEST(Guidance, PrefixWeightsAreThoseOfLerobot) {
  int n_cases = 0;
  for (const auto& [name, weights] : Golden("rtc").tensors) {
    if (!name.starts_with("weights.")) continue;
    SCOPED_TRACE(name);
    const std::size_t of_start = name.find('.', 8);
    const std::string schedule = name.substr(8, of_start - 8);
    const int start = name[of_start + 1] - '0';
    const int end = name[of_start + 3] - '0';
    const auto expected = ToTensor(weights);
    const std::vector<float> found = control::PrefixWeights(
        start, end, static_cast<int>(expected.size(0)), ScheduleOf(schedule));
    EXPECT_LE(Difference(torch::tensor(found), expected), kGuidanceTolerance);
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 24);
}

TEST(Guidance, PlansEqualThoseOfTheReference) {
  const auto policy = MakeTanhPolicy(R"({"objective": "flow_matching",
      "flow_matching": {"num_inference_steps": 5, "convention": "noise_at_one"}})");
  for (const std::string schedule : {"zeros", "ones", "linear", "exponential"}) {
    for (const bool is_full : {false, true}) {
      const std::string name = (is_full ? "plan.full." : "plan.identity.") + schedule;
      SCOPED_TRACE(name);
      const torch::Tensor plan = ContinuedPlan(*policy, PrefixWith(schedule, is_full));
      const torch::Tensor expected = RtcGolden(name).narrow(1, 1, plan.size(1));
      EXPECT_LE(Difference(plan, expected), kGuidanceTolerance);
    }
  }
}

// What each objective samples with, one per family.
const std::vector<std::string>& SamplersOfAllObjectives() {
  static const std::vector<std::string> params = {
      R"({})",
      R"({"noise_scheduler": {"type": "ddim", "num_inference_steps": 10,
                              "prediction_type": "v_prediction"}})",
      R"({"noise_scheduler": {"type": "ddim", "num_inference_steps": 10,
                              "prediction_type": "sample", "clip_sample": false}})",
      R"({"noise_scheduler": {"type": "dpmsolver++", "num_inference_steps": 10}})",
      R"({"objective": "flow_matching", "flow_matching": {"sampler": "heun"}})",
      R"({"objective": "mip"})",
      R"({"objective": "regression"})",
  };
  return params;
}

TEST(Guidance, AWeightOfZeroChangesNothing) {
  for (const std::string& params : SamplersOfAllObjectives()) {
    SCOPED_TRACE(params);
    const auto policy = MakeTanhPolicy(params);
    ChunkPrefix prefix = PrefixWith("exponential", /*has_full_jacobian=*/false);
    prefix.weights.zero_();
    NoiseSource noise = NoiseOfRows(3);
    const torch::Tensor plan =
        policy->PredictAction({{"agent_pos", RtcGolden("input.condition")}}, noise);
    EXPECT_TRUE(torch::equal(ContinuedPlan(*policy, prefix), plan));
  }
}

TEST(Guidance, AStepInWhichX0DoesNotDependOnTheOutputChangesNothing) {
  // the last correction of heun with 4 steps: no noise is left
  const SamplerStep last = {
      .x0_from_sample = 1.0, .x0_from_output = 0.0, .signal_level = 1.0, .noise_level = 0.0};
  const torch::Tensor output = torch::ones({1, 2, 2});
  EXPECT_TRUE(torch::equal(GuidedOutput(last, output, torch::ones({1, 2, 2}), 5.0), output));
}

TEST(Guidance, TheCommittedStepsComeCloserToWhatIsExecuted) {
  for (const std::string& params : SamplersOfAllObjectives()) {
    for (const bool is_full : {false, true}) {
      SCOPED_TRACE(params + (is_full ? " full" : " identity"));
      const auto policy = MakeTanhPolicy(params);
      const ChunkPrefix prefix = PrefixWith("exponential", is_full);
      const torch::Tensor target = 0.3 * prefix.actions.narrow(1, 0, kPrefixDelay);
      ChunkPrefix reachable = prefix;  // within what tanh can answer
      reachable.actions = 0.3 * prefix.actions;
      const auto distance = [&](const torch::Tensor& plan) {
        return (plan.narrow(1, 0, kPrefixDelay) - target).abs().mean().item<double>();
      };
      ChunkPrefix without = reachable;
      without.weights = torch::zeros_like(reachable.weights);
      const torch::Tensor plan = ContinuedPlan(*policy, reachable);
      EXPECT_TRUE(torch::isfinite(plan).all().item<bool>());
      EXPECT_LT(distance(plan), 0.9 * distance(ContinuedPlan(*policy, without)));
    }
  }
}

// training-time RTC
constexpr const char* kWithPrefix = R"({"objective": "flow_matching", "max_prefix": 3})";

TEST(Prefix, TheNetworkSeesTheFirstActionsOfTheChunkAsTheyAre) {
  const auto policy = MakeTanhPolicy(kWithPrefix);
  EXPECT_EQ(policy->max_prefix(), 3);
  std::set<std::int64_t> lengths;
  for (std::uint64_t step = 0; step < 8; ++step) {
    NoiseSource noise = NoiseOfRows(3, step);
    const Batch batch = {.obs = {{"agent_pos", RtcGolden("input.condition")}},
                         .action = torch::linspace(-0.9, 0.7, 48).view({3, 8, 2}),
                         .is_pad = torch::zeros({3, 8}, torch::kBool)};
    EXPECT_TRUE(torch::isfinite(policy->ComputeLoss(batch, noise).loss).item<bool>());
    const torch::Tensor seen = DenoiserOf(*policy).seen.back();
    ASSERT_EQ(seen.sizes(), (std::vector<std::int64_t>{3, 8, 3}));
    for (std::int64_t row = 0; row < 3; ++row) {
      const torch::Tensor is_given = seen[row].slice(1, 2, 3);
      const auto length = is_given.sum().item<std::int64_t>();
      lengths.insert(length);
      // from the current step on, which is step 1 of the sequence
      EXPECT_EQ(is_given.slice(0, 1, 1 + length).sum().item<std::int64_t>(), length);
      EXPECT_TRUE(torch::equal(seen[row].slice(1, 0, 2).slice(0, 1, 1 + length),
                               batch.action[row].slice(0, 1, 1 + length)));
    }
  }
  EXPECT_THAT(lengths, testing::ElementsAre(0, 1, 2, 3));
}

TEST(Prefix, TheNoisyActionOfTheLogHasNoFlagOfThePrefix) {
  const auto policy = MakeTanhPolicy(kWithPrefix);
  std::map<std::string, torch::Tensor, std::less<>> stages;
  const StageRecorder recorder([&](std::string_view name, const torch::Tensor& tensor) {
    stages.insert_or_assign(std::string(name), tensor);
  });
  NoiseSource noise = NoiseOfRows(3, 0);
  const Batch batch = {.obs = {{"agent_pos", RtcGolden("input.condition")}},
                       .action = torch::linspace(-0.9, 0.7, 48).view({3, 8, 2}),
                       .is_pad = torch::zeros({3, 8}, torch::kBool)};
  policy->ComputeLoss(batch, noise);
  ASSERT_TRUE(stages.contains("noisy action"));
  EXPECT_EQ(stages.find("noisy action")->second.sizes(), batch.action.sizes());
}

TEST(Prefix, APlanBeginsWithTheGivenActions) {
  const auto policy = MakeTanhPolicy(kWithPrefix);
  ChunkPrefix prefix = PrefixWith("zeros", /*has_full_jacobian=*/false);
  prefix.is_given = true;
  const torch::Tensor plan = ContinuedPlan(*policy, prefix);
  EXPECT_TRUE(
      torch::equal(plan.slice(1, 0, kPrefixDelay), prefix.actions.slice(1, 0, kPrefixDelay)));
  const torch::Tensor seen = DenoiserOf(*policy).seen.back();
  EXPECT_EQ(seen.slice(2, 2, 3).sum().item<int>(), 3 * kPrefixDelay);
  // without a prefix it plans like any other policy
  NoiseSource noise = NoiseOfRows(3);
  policy->PredictAction({{"agent_pos", RtcGolden("input.condition")}}, noise);
  EXPECT_EQ(DenoiserOf(*policy).seen.back().slice(2, 2, 3).sum().item<int>(), 0);
}

TEST(Guidance, NoStepMovesBeyondTheTarget) {
  // one step from noise to action: a share of more than 1 would overshoot
  const SamplerStep jump = {.x0_from_output = 1.0, .next_from_x0 = 1.0};
  EXPECT_EQ(GuidanceShare(jump, /*max_weight=*/100.0), 1.0);
  EXPECT_EQ(GuidanceShare(jump, /*max_weight=*/0.5), 0.5);
  EXPECT_EQ(GuidanceShare({.x0_from_output = 1.0, .signal_level = 1.0, .noise_level = 0.0}, 5.0),
            0.0);
}

}  // namespace
}  // namespace dp_bench::policy
