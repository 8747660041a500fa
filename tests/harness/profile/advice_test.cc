// Each piece of advice names its key and the figure behind it. Without a figure there is no advice.
#include "profile/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dp_bench::profile {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// A step at the machine's rate, with memory to spare.
TrainingFigures Healthy() {
  return {.data_share = 0.01,
          .fixed_share = 0.05,
          .product_share = 0.8,
          .batch_size = 256,
          .num_workers = 1,
          .n_cores = 4,
          .flops = 80e9,
          .float32_limit = 100e9,
          .bfloat16_limit = 100e9,
          .needed_bytes = 2e9,
          .available_bytes = 16e9};
}

void ExpectAdvice(const TrainingFigures& figures, const std::string& key, const std::string& value,
                  const std::string& figure) {
  const std::vector<Advice> advice = AdviseTraining(figures);
  ASSERT_EQ(advice.size(), 1U);
  EXPECT_EQ(advice[0].key, key);
  EXPECT_EQ(advice[0].value, value);
  EXPECT_THAT(advice[0].reason, HasSubstr(figure));
}

TEST(Advice, IsNoneWhereNoFigureSpeaksForAChange) {
  EXPECT_THAT(AdviseTraining(Healthy()), IsEmpty());
}

TEST(Advice, OnWaitingForDataIsMoreWorkersWhileThereAreCores) {
  TrainingFigures figures = Healthy();
  figures.data_share = 0.31;
  ExpectAdvice(figures, "dataloader.num_workers", "2", "31 %");
  figures.num_workers = 4;
  ExpectAdvice(figures, "dataset.params.memory_limit_mb", "more", "31 %");
}

TEST(Advice, OnShortMemoryIsASmallerBatch) {
  TrainingFigures figures = Healthy();
  figures.needed_bytes = 15e9;
  ExpectAdvice(figures, "dataloader.batch_size", "128", "takes 14305 MiB, 15259 MiB are free");
  figures.available_bytes = 0.0;  // unknown
  EXPECT_THAT(AdviseTraining(figures), IsEmpty());
}

TEST(Advice, OnFasterBfloat16IsMixedPrecisionUnlessItIsOn) {
  TrainingFigures figures = Healthy();
  figures.bfloat16_limit = 210e9;
  ExpectAdvice(figures, "training.mixed_precision", "bf16", "2.1 times");
  figures.is_float32 = false;
  EXPECT_THAT(AdviseTraining(figures), IsEmpty());
}

TEST(Advice, OnASmallBatchAtALowRateIsALargerOne) {
  TrainingFigures figures = Healthy();
  figures.batch_size = 16;
  EXPECT_THAT(AdviseTraining(figures), IsEmpty());
  figures.flops = 20e9;
  ExpectAdvice(figures, "dataloader.batch_size", "32", "20.0 GFLOP/s");
  figures.fixed_share = 0.5;
  ExpectAdvice(figures, "dataloader.batch_size", "32", "50 %");
}

}  // namespace
}  // namespace dp_bench::profile
