// Forward process and whole denoising loops compared with diffusers, and the count of clipped
// values.
#include "policy/noise_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/error.h"
#include "dp_bench/tensor.h"
#include "policy/stage_recorder.h"
#include "support/difference.h"
#include "support/golden.h"

namespace dp_bench::policy {
namespace {

// In float64, with equal tables, only the order of operations differs.
constexpr double kLoopTolerance64 = 1e-6;
// In float32 diffusers rounds its coefficients too: relative to the largest value of the loop.
constexpr double kLoopTolerance32 = 1e-5;
constexpr double kForwardTolerance = 1e-6;

const run::Safetensors& Reference() { return Golden("noise_scheduler"); }

torch::Tensor GoldenTensor(const std::string& name) {
  return ToTensor(Reference().tensors.at(name));
}

// Largest difference, relative to the largest value where that is above 1.
// Called for step i of a reverse process.
using Call = std::function<torch::Tensor(const torch::Tensor& sample, std::size_t i)>;

struct Loop {
  std::vector<torch::Tensor> prev;
  std::vector<torch::Tensor> x_0;
  std::vector<std::int64_t> n_clipped;
};

Loop Denoise(const NoiseScheduler& scheduler, const torch::Tensor& initial, const Call& output,
             const std::function<torch::Tensor(std::size_t)>& noise) {
  Loop loop;
  const StageRecorder recorder([&](std::string_view name, const torch::Tensor& tensor) {
    if (name == "sample") loop.prev.push_back(tensor.clone());
    if (name == "denoised action") loop.x_0.push_back(tensor.clone());
    if (name == "clipped values") loop.n_clipped.push_back(tensor.item<std::int64_t>());
  });
  RunSamplingPlan({.steps = scheduler.steps()}, initial, /*condition=*/{},
                  {.denoise = output, .draw_noise = [&] { return noise(loop.prev.size()); }});
  return loop;
}

Loop DenoiseGolden(const NoiseScheduler& scheduler, torch::ScalarType dtype) {
  const torch::Tensor outputs = GoldenTensor("input.model_output").to(dtype);
  const torch::Tensor noise = GoldenTensor("input.noise").to(dtype);
  const auto at = [](const torch::Tensor& x, std::size_t i) {
    return x[static_cast<std::int64_t>(i)];
  };
  return Denoise(
      scheduler, GoldenTensor("input.sample").to(dtype),
      [&](const torch::Tensor&, std::size_t i) { return at(outputs, i); },
      [&](std::size_t i) { return at(noise, i); });
}

TEST(NoiseScheduler, DenoisingLoopsEqualThoseOfDiffusers) {
  int n_cases = 0;
  for (const auto& [name, text] : Reference().metadata) {
    if (!name.starts_with("loop.")) continue;
    SCOPED_TRACE(text);
    const NoiseScheduler scheduler(NoiseSchedulerConfig::FromConfig(Config::FromJson(text)));
    const Loop loop64 = DenoiseGolden(scheduler, torch::kFloat64);
    EXPECT_LE(RelativeDifference(torch::stack(loop64.prev), GoldenTensor(name + ".f64.prev")),
              kLoopTolerance64);
    EXPECT_LE(RelativeDifference(torch::stack(loop64.x_0), GoldenTensor(name + ".f64.x0")),
              kLoopTolerance64);
    const Loop loop32 = DenoiseGolden(scheduler, torch::kFloat32);
    EXPECT_EQ(loop32.prev.back().scalar_type(), torch::kFloat32);
    EXPECT_LE(RelativeDifference(torch::stack(loop32.prev), GoldenTensor(name + ".f32.prev")),
              kLoopTolerance32);
    EXPECT_LE(RelativeDifference(torch::stack(loop32.x_0), GoldenTensor(name + ".f32.x0")),
              kLoopTolerance32);
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 29);
}

TEST(NoiseScheduler, ForwardProcessAndVelocityEqualThoseOfDiffusers) {
  const torch::Tensor x_0 = GoldenTensor("input.sample");
  const torch::Tensor noise = GoldenTensor("input.noise")[0];
  const torch::Tensor timesteps = GoldenTensor("forward.timesteps");
  const NoiseScheduler scheduler({.prediction_type = PredictionType::kVPrediction});
  EXPECT_LE(
      RelativeDifference(scheduler.AddNoise(x_0, noise, timesteps), GoldenTensor("forward.noisy")),
      kForwardTolerance);
  EXPECT_LE(
      RelativeDifference(scheduler.Target(x_0, noise, timesteps), GoldenTensor("forward.velocity")),
      kForwardTolerance);
}

TEST(NoiseScheduler, TargetIsTheNoiseOrTheSample) {
  const torch::Tensor x_0 = torch::ones({2, 3});
  const torch::Tensor noise = torch::zeros({2, 3});
  const torch::Tensor timesteps = torch::tensor({1, 2});
  const NoiseScheduler epsilon({.prediction_type = PredictionType::kEpsilon});
  const NoiseScheduler sample({.prediction_type = PredictionType::kSample});
  EXPECT_TRUE(torch::equal(epsilon.Target(x_0, noise, timesteps), noise));
  EXPECT_TRUE(torch::equal(sample.Target(x_0, noise, timesteps), x_0));
}

// A network that knows x_0 and makes a perfect prediction of the required type.
TEST(NoiseScheduler, APerfectPredictionLeadsBackToTheSample) {
  const torch::Tensor x_0 = GoldenTensor("input.sample").clamp(-0.9, 0.9).to(torch::kFloat64);
  const torch::Tensor noise = GoldenTensor("input.noise")[0].to(torch::kFloat64);
  for (const char* type : {"ddpm", "ddim"}) {
    for (const PredictionType prediction :
         {PredictionType::kEpsilon, PredictionType::kSample, PredictionType::kVPrediction}) {
      const NoiseScheduler scheduler(
          {.type = type, .num_inference_steps = 100, .prediction_type = prediction});
      const auto perfect = [&](const torch::Tensor& sample, std::size_t i) {
        const std::int64_t t = scheduler.timesteps()[i];
        // the noise in the current sample, given x_0
        const double alpha_bar = scheduler.alphas_cumprod()[static_cast<std::size_t>(t)];
        const torch::Tensor present =
            (sample - x_0 * std::sqrt(alpha_bar)) / std::sqrt(1.0 - alpha_bar);
        return scheduler.Target(x_0, present, torch::full({2}, t, torch::kInt64));
      };
      const torch::Tensor noisy =
          scheduler.AddNoise(x_0, noise, torch::full({2}, 99, torch::kInt64));
      const Loop loop = Denoise(scheduler, noisy, perfect, [&](std::size_t) { return noise; });
      EXPECT_LE(RelativeDifference(loop.prev.back(), x_0), kLoopTolerance64);
    }
  }
}

TEST(NoiseScheduler, TheTraceCountsTheValuesThatWereClipped) {
  NoiseSchedulerConfig config{.num_inference_steps = 1,
                              .prediction_type = PredictionType::kSample,
                              .clip_sample_range = 2.0};
  const torch::Tensor output = torch::tensor({{{-3.0F, -2.0F, 0.0F, 1.9F, 2.1F, 5.0F}}});
  const torch::Tensor sample = torch::zeros_like(output);
  const auto run = [&] {
    return Denoise(
        NoiseScheduler(config), sample, [&](const torch::Tensor&, std::size_t) { return output; },
        [&](std::size_t) { return sample; });
  };
  const Loop clipped = run();
  EXPECT_EQ(clipped.n_clipped, std::vector<std::int64_t>({3}));
  EXPECT_TRUE(torch::equal(clipped.x_0[0], output.clamp(-2.0, 2.0)));

  config.clip_sample = false;
  const Loop unclipped = run();
  EXPECT_TRUE(unclipped.n_clipped.empty());
  EXPECT_TRUE(torch::equal(unclipped.x_0[0], output));
}

TEST(NoiseScheduler, SamplingLeavesItsInputsAlone) {
  const NoiseScheduler scheduler(
      {.num_inference_steps = 2, .prediction_type = PredictionType::kSample});
  const torch::Tensor output = torch::full({1, 1, 3}, 4.0);
  const torch::Tensor sample = torch::ones({1, 1, 3});
  Denoise(
      scheduler, sample, [&](const torch::Tensor&, std::size_t) { return output; },
      [&](std::size_t) {
        return torch::ones({1, 1, 3});
      });
  EXPECT_TRUE(torch::equal(output, torch::full({1, 1, 3}, 4.0)));
  EXPECT_TRUE(torch::equal(sample, torch::ones({1, 1, 3})));
}

// In ten steps from timestep 90 to 0; none of them adds noise at its end.
TEST(NoiseScheduler, OnlyStochasticSamplersAddNoise) {
  const auto noise_of = [](const NoiseSchedulerConfig& config) {
    std::vector<bool> noisy;
    for (const SamplerStep& step : NoiseScheduler(config).steps()) noisy.push_back(step.noise > 0);
    return noisy;
  };
  std::vector<bool> all_but_last(10, true);
  all_but_last.back() = false;
  EXPECT_EQ(noise_of({.num_inference_steps = 10}), all_but_last);
  EXPECT_EQ(noise_of({.type = "ddim", .num_inference_steps = 10}), std::vector<bool>(10, false));
  EXPECT_EQ(noise_of({.type = "ddim", .num_inference_steps = 10, .eta = 0.5}), all_but_last);
}

TEST(NoiseScheduler, WantsOneTimestepPerRow) {
  const NoiseScheduler scheduler({});
  const torch::Tensor x = torch::zeros({3, 2});
  try {
    scheduler.AddNoise(x, x, torch::tensor({1, 2}));
    FAIL() << "two timesteps served three rows";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "timesteps have shape [2], samples [3, 2]; one timestep per row is needed");
  }
}

}  // namespace
}  // namespace dp_bench::policy
