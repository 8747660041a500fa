// Each denoising step as the stages of a policy tell it.
#include <gtest/gtest.h>

#include "train/process_stages.h"

namespace dp_bench::train {
namespace {

/// Two steps: x_0 is 1 in the first and 3 in the second.
SamplingTrace TwoSteps() {
  SamplingTrace trace;
  const torch::Tensor ones = torch::ones({2, 4, 3});
  trace.Note("condition", torch::ones({2, 7}));
  trace.Note("noise", 5.0 * ones);
  trace.Note("timestep", torch::tensor(std::int64_t{90}));
  trace.Note("denoised action", ones);
  trace.Note("clipped values", torch::tensor(std::int64_t{6}));
  trace.Note("sample", torch::cat({-ones, 2.0 * ones}));
  trace.Note("timestep", torch::tensor(std::int64_t{0}));
  trace.Note("denoised action", 3.0 * ones);
  trace.Note("sample", 3.0 * ones);
  return trace;
}

TEST(SamplingTrace, HasARangeForEachStep) {
  const SamplingTrace trace = TwoSteps();
  ASSERT_EQ(trace.steps().size(), 2U);
  const SamplingStep& first = trace.steps()[0];
  EXPECT_EQ(first.timestep, 90);
  EXPECT_EQ(first.min, -1.0);
  EXPECT_EQ(first.max, 2.0);
  EXPECT_EQ(first.mean, 0.5);
  EXPECT_EQ(first.std, 1.5);
  EXPECT_EQ(first.x_0_max, 1.0);
  EXPECT_EQ(trace.samples().size(), 3U);
  EXPECT_EQ(trace.samples()[0][0][0][0].item<float>(), 5.0F);
}

// the time of flow matching
TEST(SamplingTrace, KeepsTimesThatAreNoIntegers) {
  SamplingTrace trace;
  trace.Note("timestep", torch::tensor(0.9, torch::kFloat64));
  trace.Note("sample", torch::ones({2, 4, 3}));
  EXPECT_EQ(trace.steps()[0].timestep, 0.9);
}

TEST(SamplingTrace, CountsClippedValuesByStepAndInAll) {
  const SamplingTrace trace = TwoSteps();
  EXPECT_EQ(trace.steps()[0].n_clipped, 6);
  EXPECT_EQ(trace.steps()[0].clipped_share(), 0.25);
  EXPECT_EQ(trace.steps()[1].n_clipped, 0);
  EXPECT_EQ(ClippedInAll(trace.steps()).clipped_share(), 0.125);
}

TEST(SamplingTrace, SeesThePredictedX0Change) {
  const SamplingTrace trace = TwoSteps();
  EXPECT_EQ(trace.steps()[0].x_0_change, 0.0);
  EXPECT_EQ(trace.steps()[1].x_0_change, 2.0);
}

}  // namespace
}  // namespace dp_bench::train
