// Learning-rate curves against diffusers.
#include "train/lr_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/error_of.h"
#include "support/golden.h"
#include "support/json_golden.h"

namespace dp_bench::train {
namespace {

using testing::HasSubstr;

constexpr double kTolerance = 1e-12;  // equal formulas in float64
constexpr std::int64_t kNumTrainingSteps = 50;
constexpr double kBaseLr = 1e-3;

TEST(LrScheduler, CurvesEqualThoseOfDiffusers) {
  const run::Safetensors& golden = Golden("training");
  int n_cases = 0;
  for (const auto& [name, text] : golden.metadata) {
    if (!name.starts_with("lr.")) continue;
    SCOPED_TRACE(text);
    const LrScheduleConfig config = LrScheduleConfig::FromConfig(Config::FromJson(text));
    const auto factors = golden.tensors.at(name).as<double>();
    for (std::size_t step = 0; step < factors.size(); ++step) {
      const double factor =
          LrFactor(config, static_cast<std::int64_t>(step), kNumTrainingSteps, kBaseLr);
      // after the end cosine rises again, as in diffusers
      EXPECT_NEAR(factor, factors[step], kTolerance) << "step " << step;
    }
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 10);
}

TEST(LrScheduler, RatesOfTheOtherSchedulesEqualThoseOfDiffusers) {
  const nlohmann::json& cases = JsonGolden("lr_schedulers")["cases"];
  ASSERT_EQ(cases.size(), 9U);
  for (const nlohmann::json& c : cases) {
    SCOPED_TRACE(c["config"].dump());
    const auto config = LrScheduleConfig::FromConfig(Config::FromJson(c["config"].dump()));
    const auto base_lr = c["base_lr"].get<double>();
    CheckBaseLr(config, base_lr);
    const auto rates = c["lr"].get<std::vector<double>>();
    for (std::size_t step = 0; step < rates.size(); ++step) {
      const double factor = LrFactor(config, static_cast<std::int64_t>(step),
                                     c["num_training_steps"].get<std::int64_t>(), base_lr);
      EXPECT_NEAR(factor, rates[step] / base_lr, kTolerance) << "step " << step;
    }
  }
}

TEST(LrScheduler, EachScheduleReadsItsOwnKeysAlone) {
  const Config config = Config::FromJson(R"({"lr_scheduler": "cosine", "lr_power": 2.0})");
  LrScheduleConfig::FromConfig(config);
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { config.RejectUnread(); }), HasSubstr("lr_power"));
}

TEST(LrScheduler, PolynomialWantsABaseRateAboveItsEnd) {
  const auto config = LrScheduleConfig::FromConfig(
      Config::FromJson(R"({"lr_scheduler": "polynomial", "lr_end": 0.01})"));
  CheckBaseLr(config, 0.02);
  EXPECT_EQ(MessageOf(ErrorCode::kConfig, [&] { CheckBaseLr(config, 0.01); }),
            "training.lr_end is 0.01, the final rate of polynomial; expected less than "
            "optimizer.lr, 0.01");
}

TEST(LrScheduler, CosineIsTheDefaultAndFallsToZero) {
  const LrScheduleConfig config = LrScheduleConfig::FromConfig(Config::FromJson("{}"));
  EXPECT_EQ(LrFactor(config, 0, 2000, kBaseLr), 0.0);
  EXPECT_EQ(LrFactor(config, 250, 2000, kBaseLr), 0.5);
  EXPECT_EQ(LrFactor(config, 500, 2000, kBaseLr), 1.0);
  EXPECT_NEAR(LrFactor(config, 2000, 2000, kBaseLr), 0.0, kTolerance);
}

}  // namespace
}  // namespace dp_bench::train
