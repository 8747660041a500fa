// Forward process and whole denoising loops compared with diffusers, and the count of clipped
// values.
#include "dp_bench/noise_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "dp_bench/error.h"
#include "dp_bench/tensor.h"
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
double Difference(const torch::Tensor& found, const torch::Tensor& expected) {
  const double scale = std::max(1.0, expected.abs().max().item<double>());
  return (found - expected).abs().max().item<double>() / scale;
}

struct Loop {
  torch::Tensor prev;
  torch::Tensor x_0;
};

Loop Denoise(const NoiseScheduler& scheduler, torch::ScalarType dtype) {
  const torch::Tensor outputs = GoldenTensor("input.model_output").to(dtype);
  const torch::Tensor noise = GoldenTensor("input.noise").to(dtype);
  torch::Tensor sample = GoldenTensor("input.sample").to(dtype);
  std::vector<torch::Tensor> prev;
  std::vector<torch::Tensor> x_0;
  for (const std::int64_t t : scheduler.timesteps()) {
    const auto i = static_cast<std::int64_t>(prev.size());
    const torch::Tensor step_noise = scheduler.NeedsNoise(t) ? noise[i] : torch::Tensor();
    const NoiseScheduler::StepOutput step = scheduler.Step(outputs[i], t, sample, step_noise);
    sample = step.prev_sample;
    prev.push_back(sample);
    x_0.push_back(step.pred_original_sample);
  }
  return {torch::stack(prev), torch::stack(x_0)};
}

TEST(NoiseScheduler, DenoisingLoopsEqualThoseOfDiffusers) {
  int n_cases = 0;
  for (const auto& [name, text] : Reference().metadata) {
    if (!name.starts_with("loop.")) continue;
    SCOPED_TRACE(text);
    const NoiseScheduler scheduler(NoiseSchedulerConfig::FromConfig(Config::FromJson(text)));
    const Loop loop64 = Denoise(scheduler, torch::kFloat64);
    EXPECT_LE(Difference(loop64.prev, GoldenTensor(name + ".f64.prev")), kLoopTolerance64);
    EXPECT_LE(Difference(loop64.x_0, GoldenTensor(name + ".f64.x0")), kLoopTolerance64);
    const Loop loop32 = Denoise(scheduler, torch::kFloat32);
    EXPECT_EQ(loop32.prev.scalar_type(), torch::kFloat32);
    EXPECT_LE(Difference(loop32.prev, GoldenTensor(name + ".f32.prev")), kLoopTolerance32);
    EXPECT_LE(Difference(loop32.x_0, GoldenTensor(name + ".f32.x0")), kLoopTolerance32);
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 29);
}

TEST(NoiseScheduler, ForwardProcessAndVelocityEqualThoseOfDiffusers) {
  const torch::Tensor x_0 = GoldenTensor("input.sample");
  const torch::Tensor noise = GoldenTensor("input.noise")[0];
  const torch::Tensor timesteps = GoldenTensor("forward.timesteps");
  const NoiseScheduler scheduler({.prediction_type = PredictionType::kVPrediction});
  EXPECT_LE(Difference(scheduler.AddNoise(x_0, noise, timesteps), GoldenTensor("forward.noisy")),
            kForwardTolerance);
  EXPECT_LE(Difference(scheduler.Target(x_0, noise, timesteps), GoldenTensor("forward.velocity")),
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
  for (const SchedulerType type : {SchedulerType::kDdpm, SchedulerType::kDdim}) {
    for (const PredictionType prediction :
         {PredictionType::kEpsilon, PredictionType::kSample, PredictionType::kVPrediction}) {
      const NoiseScheduler scheduler(
          {.type = type, .num_inference_steps = 100, .prediction_type = prediction});
      torch::Tensor sample = scheduler.AddNoise(x_0, noise, torch::full({2}, 99, torch::kInt64));
      for (const std::int64_t t : scheduler.timesteps()) {
        // the noise in the current sample, given x_0
        const double alpha_bar = scheduler.alphas_cumprod()[static_cast<std::size_t>(t)];
        const torch::Tensor present =
            (sample - x_0 * std::sqrt(alpha_bar)) / std::sqrt(1.0 - alpha_bar);
        const torch::Tensor output =
            scheduler.Target(x_0, present, torch::full({2}, t, torch::kInt64));
        sample = scheduler.Step(output, t, sample, noise).prev_sample;
      }
      EXPECT_LE(Difference(sample, x_0), kLoopTolerance64);
    }
  }
}

TEST(NoiseScheduler, CountsTheValuesThatItClipped) {
  NoiseSchedulerConfig config{.prediction_type = PredictionType::kSample, .clip_sample_range = 2.0};
  const torch::Tensor output = torch::tensor({{-3.0F, -2.0F, 0.0F, 1.9F, 2.1F, 5.0F}});
  const torch::Tensor sample = torch::zeros_like(output);
  const auto step = [&](bool count) {
    return NoiseScheduler(config).Step(output, 0, sample, torch::Tensor(), count);
  };
  const NoiseScheduler::StepOutput clipped = step(/*count=*/true);
  EXPECT_EQ(clipped.n_clipped.item<std::int64_t>(), 3);
  EXPECT_TRUE(torch::equal(clipped.pred_original_sample, output.clamp(-2.0, 2.0)));
  EXPECT_FALSE(step(/*count=*/false).n_clipped.defined());

  config.clip_sample = false;
  const NoiseScheduler::StepOutput unclipped = step(/*count=*/true);
  EXPECT_EQ(unclipped.n_clipped.item<std::int64_t>(), 0);
  EXPECT_TRUE(torch::equal(unclipped.pred_original_sample, output));
}

TEST(NoiseScheduler, LeavesItsInputsAlone) {
  const NoiseScheduler scheduler({.prediction_type = PredictionType::kSample});
  const torch::Tensor output = torch::full({1, 3}, 4.0);
  const torch::Tensor sample = torch::ones({1, 3});
  scheduler.Step(output, 50, sample, torch::ones({1, 3}));
  EXPECT_TRUE(torch::equal(output, torch::full({1, 3}, 4.0)));
  EXPECT_TRUE(torch::equal(sample, torch::ones({1, 3})));
}

TEST(NoiseScheduler, SaysWhenItNeedsNoise) {
  const NoiseScheduler ddpm({.num_inference_steps = 10});
  EXPECT_TRUE(ddpm.NeedsNoise(90));
  EXPECT_FALSE(ddpm.NeedsNoise(0));
  const NoiseScheduler ddim({.type = SchedulerType::kDdim, .num_inference_steps = 10});
  EXPECT_FALSE(ddim.NeedsNoise(90));
  const NoiseScheduler stochastic(
      {.type = SchedulerType::kDdim, .num_inference_steps = 10, .eta = 0.5});
  EXPECT_TRUE(stochastic.NeedsNoise(90));
  EXPECT_FALSE(stochastic.NeedsNoise(0));

  const torch::Tensor x = torch::zeros({1, 2});
  EXPECT_THROW(ddpm.Step(x, 90, x, torch::Tensor()), Error);
  EXPECT_THROW(ddpm.Step(x, 100, x, x), Error);
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
