// Learning-rate curves against diffusers.
#include "train/lr_scheduler.h"

#include <gtest/gtest.h>

#include "support/golden.h"

namespace dp_bench {
namespace {

constexpr double kTolerance = 1e-12;  // equal formulas in float64
constexpr std::int64_t kNumTrainingSteps = 50;

TEST(LrScheduler, CurvesEqualThoseOfDiffusers) {
  const Safetensors& golden = Golden("training");
  int n_cases = 0;
  for (const auto& [name, text] : golden.metadata) {
    if (!name.starts_with("lr.")) continue;
    SCOPED_TRACE(text);
    const LrScheduleConfig config = LrScheduleConfig::FromConfig(Config::FromJson(text));
    const auto factors = golden.tensors.at(name).as<double>();
    for (std::size_t step = 0; step < factors.size(); ++step) {
      const double factor = LrFactor(config, static_cast<std::int64_t>(step), kNumTrainingSteps);
      // past the end cosine rises again; we share that with diffusers
      EXPECT_NEAR(factor, factors[step], kTolerance) << "step " << step;
    }
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 10);
}

TEST(LrScheduler, CosineIsTheDefaultAndFallsToZero) {
  const LrScheduleConfig config = LrScheduleConfig::FromConfig(Config::FromJson("{}"));
  EXPECT_EQ(LrFactor(config, 0, 2000), 0.0);
  EXPECT_EQ(LrFactor(config, 250, 2000), 0.5);
  EXPECT_EQ(LrFactor(config, 500, 2000), 1.0);
  EXPECT_NEAR(LrFactor(config, 2000, 2000), 0.0, kTolerance);
}

}  // namespace
}  // namespace dp_bench
