// DPM-Solver++, Euler's and Heun's method compared with diffusers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "dp_bench/noise_scheduler.h"
#include "dp_bench/tensor.h"
#include "support/error_of.h"
#include "support/golden.h"

namespace dp_bench::policy {
namespace {

// diffusers rounds the noise levels to float32 and computes in float32, here with float64 tables.
// Relative to the largest value of the loop.
constexpr double kLoopTolerance = 2e-5;

torch::Tensor SamplerGolden(const std::string& name) {
  return ToTensor(Golden("samplers").tensors.at(name));
}

double RelativeDifference(const torch::Tensor& found, const torch::Tensor& expected) {
  const double scale = std::max(1.0, expected.abs().max().item<double>());
  return (found - expected).abs().max().item<double>() / scale;
}

// The network of the reference.
torch::Tensor Answer(const torch::Tensor& x, std::int64_t t) {
  return 0.8 * torch::sin(1.3 * x + 0.05 * static_cast<double>(t));
}

struct Loop {
  std::vector<torch::Tensor> prev;
  std::vector<torch::Tensor> x_0;
};

Loop Denoise(const NoiseScheduler& scheduler) {
  Loop loop;
  torch::Tensor x = SamplerGolden("input.sample").to(torch::kFloat64);
  for (const std::int64_t t : scheduler.timesteps()) {
    const torch::Tensor last_x_0 = loop.x_0.empty() ? torch::Tensor() : loop.x_0.back();
    const auto step = scheduler.Step(Answer(x, t), t, x, /*variance_noise=*/{},
                                     /*count_clipped=*/false, last_x_0);
    const auto next = scheduler.CorrectedAt(t);
    x = next ? scheduler.Correct(Answer(step.prev_sample, *next), t, x, step.prev_sample)
             : step.prev_sample;
    loop.prev.push_back(x);
    loop.x_0.push_back(step.pred_original_sample);
  }
  return loop;
}

TEST(Samplers, LoopsEqualThoseOfDiffusers) {
  int n_cases = 0;
  for (const auto& [name, text] : Golden("samplers").metadata) {
    if (!name.starts_with("loop.")) continue;
    SCOPED_TRACE(text);
    const NoiseScheduler scheduler(NoiseSchedulerConfig::FromConfig(Config::FromJson(text)));
    const Loop loop = Denoise(scheduler);
    EXPECT_LE(RelativeDifference(torch::stack(loop.prev), SamplerGolden(name + ".prev")),
              kLoopTolerance);
    EXPECT_LE(RelativeDifference(torch::stack(loop.x_0), SamplerGolden(name + ".x0")),
              kLoopTolerance);
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 33);
}

TEST(Samplers, TimestepsOfDpmSolverEqualThoseOfDiffusers) {
  int n_cases = 0;
  for (const auto& [name, text] : Golden("samplers").metadata) {
    if (!name.starts_with("timesteps.")) continue;
    SCOPED_TRACE(text);
    const NoiseScheduler scheduler(NoiseSchedulerConfig::FromConfig(Config::FromJson(text)));
    const auto expected = Golden("samplers").tensors.at(name).as<std::int64_t>();
    EXPECT_EQ(scheduler.timesteps(), std::vector<std::int64_t>(expected.begin(), expected.end()));
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 20);
}

TEST(Samplers, OnlyHeunCorrectsAndNotItsLastStep) {
  const auto corrected = [](SchedulerType type, std::int64_t t) {
    return NoiseScheduler({.type = type, .num_inference_steps = 5}).CorrectedAt(t);
  };
  EXPECT_EQ(corrected(SchedulerType::kHeun, 80), 60);
  EXPECT_EQ(corrected(SchedulerType::kHeun, 0), std::nullopt);
  for (const SchedulerType type : {SchedulerType::kDdpm, SchedulerType::kDdim,
                                   SchedulerType::kEuler, SchedulerType::kDpmSolverPlusPlus}) {
    EXPECT_EQ(corrected(type, 80), std::nullopt);
  }
}

TEST(Samplers, OfTheOdeNeedNoNoise) {
  for (const SchedulerType type :
       {SchedulerType::kDpmSolverPlusPlus, SchedulerType::kEuler, SchedulerType::kHeun}) {
    const NoiseScheduler scheduler({.type = type, .num_inference_steps = 5, .eta = 1.0});
    for (const std::int64_t t : scheduler.timesteps()) EXPECT_FALSE(scheduler.NeedsNoise(t));
  }
}

TEST(Samplers, DpmSolverRefusesToVisitATimestepTwice) {
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig,
                [] { NoiseScheduler({.type = SchedulerType::kDpmSolverPlusPlus}); }),
      testing::HasSubstr("dpmsolver++ with 100 of 100 timesteps and this timestep_spacing visits "
                         "timestep 0 more than once; lower num_inference_steps"));
}

TEST(Samplers, AStepFromATimestepThatIsNoneOfTheirsIsAnError) {
  const NoiseScheduler scheduler({.type = SchedulerType::kEuler, .num_inference_steps = 5});
  const torch::Tensor x = torch::zeros({1, 2});
  EXPECT_THAT(MessageOf(ErrorCode::kInternal, [&] { scheduler.Step(x, 81, x, {}); }),
              testing::HasSubstr("timestep 81 is none of the 5 denoising steps"));
}

}  // namespace
}  // namespace dp_bench::policy
