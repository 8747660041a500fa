// Tables and timesteps compared with diffusers, and invalid settings.
#include <gtest/gtest.h>

#include "dp_bench/error.h"
#include "policy/noise_scheduler.h"
#include "support/golden.h"

namespace dp_bench::policy {
namespace {

// diffusers builds its tables in float32; ours are doubles rounded to float32. One unit in the last
// place of a number below 1 is 6e-8, and the running product adds up a few.
constexpr double kTableTolerance = 1e-6;

const run::Safetensors& GoldenSchedules() { return Golden("noise_scheduler"); }

NoiseSchedulerConfig ParseConfig(const std::string& text) {
  const Config config = Config::FromJson(text);
  NoiseSchedulerConfig parsed = NoiseSchedulerConfig::FromConfig(config);
  config.RejectUnread();
  return parsed;
}

void ExpectNear(const std::vector<double>& found, const Array& expected) {
  const auto values = expected.as<float>();
  ASSERT_EQ(found.size(), values.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], static_cast<double>(values[i]), kTableTolerance) << "at " << i;
  }
}

TEST(Schedule, TablesEqualThoseOfDiffusers) {
  int n_cases = 0;
  for (const auto& [name, text] : GoldenSchedules().metadata) {
    if (!name.starts_with("tables.")) continue;
    SCOPED_TRACE(text);
    const NoiseScheduler scheduler(ParseConfig(text));
    ExpectNear(scheduler.betas(), GoldenSchedules().tensors.at(name + ".betas"));
    ExpectNear(scheduler.alphas_cumprod(), GoldenSchedules().tensors.at(name + ".alphas_cumprod"));
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 10);
}

// the clip that papers and many copies of the cosine schedule have
TEST(Schedule, TheCosineKeepsBetasWithinItsClip) {
  const NoiseSchedulerConfig config = ParseConfig(R"({"beta_schedule": "cosine"})");
  EXPECT_EQ(config.beta_clip, (std::array<double, 2>{1e-4, 0.9999}));
  const std::vector<double> betas = NoiseScheduler(config).betas();
  EXPECT_FLOAT_EQ(static_cast<float>(betas.back()), 0.9999F);
  NoiseSchedulerConfig fine = config;
  fine.num_train_timesteps = 1000;  // the first betas would be 4e-5
  fine.num_inference_steps = 10;
  EXPECT_FLOAT_EQ(static_cast<float>(NoiseScheduler(fine).betas().front()), 1e-4F);
  // apart from its ends, the schedule is that of diffusers
  const std::vector<double> of_diffusers = NoiseScheduler(ParseConfig("{}")).betas();
  EXPECT_EQ(betas[50], of_diffusers[50]);
  EXPECT_FLOAT_EQ(static_cast<float>(of_diffusers.back()), 0.999F);
}

TEST(Schedule, AClipThatIsNoRangeIsAnError) {
  const auto error_of = [](const char* text) -> std::string {
    try {
      const NoiseScheduler scheduler(ParseConfig(text));
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(error_of(R"({"beta_clip": [0.1]})").find("beta_clip: expected 2 numbers"),
            std::string::npos);
  EXPECT_EQ(error_of(R"({"beta_clip": [0.5, 0.1]})"),
            "noise_scheduler: beta_clip is [0.5, 0.1]; 0 <= smallest <= largest < 1 must hold");
}

TEST(Schedule, TimestepsEqualThoseOfDiffusers) {
  int n_cases = 0;
  for (const auto& [name, text] : GoldenSchedules().metadata) {
    if (!name.starts_with("timesteps.")) continue;
    SCOPED_TRACE(text);
    const NoiseScheduler scheduler(ParseConfig(text));
    const auto expected = GoldenSchedules().tensors.at(name).as<std::int64_t>();
    EXPECT_EQ(scheduler.timesteps(), std::vector<std::int64_t>(expected.begin(), expected.end()));
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 27);
}

TEST(Schedule, EverySpacingGivesDistinctTimestepsWithinTheTable) {
  NoiseSchedulerConfig config{.num_train_timesteps = 97};
  for (const TimestepSpacing spacing :
       {TimestepSpacing::kLeading, TimestepSpacing::kTrailing, TimestepSpacing::kLinspace}) {
    config.timestep_spacing = spacing;
    for (int n = 1; n <= config.num_train_timesteps; ++n) {
      config.num_inference_steps = n;
      const std::vector<std::int64_t> timesteps = NoiseScheduler(config).timesteps();
      ASSERT_EQ(timesteps.size(), static_cast<std::size_t>(n));
      EXPECT_LT(timesteps.front(), config.num_train_timesteps);
      EXPECT_GE(timesteps.back(), 0);
      for (std::size_t i = 1; i < timesteps.size(); ++i) {
        ASSERT_LT(timesteps[i], timesteps[i - 1]) << "n " << n;
      }
    }
  }
}

void ExpectConfigError(const NoiseSchedulerConfig& config, const std::string& message) {
  try {
    const NoiseScheduler scheduler(config);
    FAIL() << "accepted; expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kConfig);
    EXPECT_EQ(std::string(error.what()), message);
  }
}

TEST(Schedule, RejectsSettingsThatCannotWork) {
  ExpectConfigError({.num_train_timesteps = 50, .num_inference_steps = 51},
                    "num_inference_steps is 51; it must lie within 1 and num_train_timesteps = 50");
  ExpectConfigError(
      {.num_inference_steps = 100, .steps_offset = 1},
      "steps_offset 1 moves the first of 100 inference steps to timestep 100, but the "
      "last trained timestep is 99; lower steps_offset");
  ExpectConfigError({.beta_start = 0.3, .beta_end = 0.2},
                    "noise_scheduler: beta_start is 0.3 and beta_end is 0.2; 0 < beta_start <= "
                    "beta_end < 1 must hold");
  ExpectConfigError({.clip_sample_range = 0.0},
                    "noise_scheduler: clip_sample_range is 0; it must be positive");
  ExpectConfigError({.eta = 1.5}, "noise_scheduler: eta is 1.5; it must lie within 0 and 1");
  ExpectConfigError(
      {.num_train_timesteps = 100,
       .beta_start = 0.9,
       .beta_end = 0.999,
       .beta_schedule = BetaSchedule::kLinear},
      "noise_scheduler: alphas_cumprod runs from 0.10000002384185791 to 0, beyond what float32 "
      "resolves between 1 and 0; change beta_start, beta_end or num_train_timesteps");
}

TEST(Schedule, ReadsTheDefaultsOfDiffusionPolicyFromAnEmptyConfig) {
  const NoiseSchedulerConfig config = ParseConfig("{}");
  EXPECT_EQ(config.type, "ddpm");
  EXPECT_EQ(config.num_train_timesteps, 100);
  EXPECT_EQ(config.num_inference_steps, 100);
  EXPECT_EQ(config.beta_schedule, BetaSchedule::kSquaredcosCapV2);
  EXPECT_EQ(config.prediction_type, PredictionType::kEpsilon);
  EXPECT_TRUE(config.clip_sample);
}

TEST(Schedule, AnUnnamedNumberOfInferenceStepsIsThatOfTraining) {
  EXPECT_EQ(ParseConfig(R"({"num_train_timesteps": 30})").num_inference_steps, 30);
}

}  // namespace
}  // namespace dp_bench::policy
