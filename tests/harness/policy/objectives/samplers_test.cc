// DPM-Solver++, Euler's and Heun's method compared with diffusers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/tensor.h"
#include "policy/noise_scheduler.h"
#include "policy/stage_recorder.h"
#include "support/difference.h"
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
  const StageRecorder recorder([&](std::string_view name, const torch::Tensor& tensor) {
    if (name == "sample") loop.prev.push_back(tensor.clone());
    if (name == "denoised action") loop.x_0.push_back(tensor.clone());
  });
  const SamplingPlan plan = {.steps = scheduler.steps()};
  const auto answer = [&](const torch::Tensor& x, std::size_t i) {
    return Answer(x, static_cast<std::int64_t>(plan.steps[i].time));
  };
  RunSamplingPlan(plan, SamplerGolden("input.sample").to(torch::kFloat64), /*condition=*/{},
                  {.denoise = answer, .draw_noise = {}});
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

std::vector<double> TimesOf(const NoiseSchedulerConfig& config) {
  std::vector<double> times;
  for (const SamplerStep& step : NoiseScheduler(config).steps()) times.push_back(step.time);
  return times;
}

TEST(Samplers, OnlyHeunCorrectsAndNotItsLastStep) {
  EXPECT_THAT(TimesOf({.type = "heun", .num_inference_steps = 5}),
              testing::ElementsAre(80, 60, 60, 40, 40, 20, 20, 0, 0));
  for (const std::string& type : SamplerNames()) {
    if (type == "heun") continue;
    EXPECT_EQ(TimesOf({.type = type, .num_inference_steps = 5}).size(), 5U) << type;
  }
}

TEST(Samplers, OfTheOdeNeedNoNoise) {
  for (const char* type : {"dpmsolver++", "euler", "heun"}) {
    const NoiseScheduler scheduler({.type = type, .num_inference_steps = 5, .eta = 1.0});
    for (const SamplerStep& step : scheduler.steps()) EXPECT_EQ(step.noise, 0.0);
  }
}

TEST(Samplers, DpmSolverRefusesToVisitATimestepTwice) {
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig, [] { NoiseScheduler({.type = "dpmsolver++"}); }),
      testing::HasSubstr("dpmsolver++ with 100 of 100 timesteps and this timestep_spacing visits "
                         "timestep 0 more than once; lower num_inference_steps"));
}

}  // namespace
}  // namespace dp_bench::policy
