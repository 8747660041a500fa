// The guarantee of NoiseSource: a row's numbers depend only on its key and its own draws.
#include <gtest/gtest.h>

#include "dp_bench/error.h"
#include "dp_bench/tensor.h"

namespace dp_bench::policy {
namespace {

const std::vector<NoiseKey> kRows = {
    {.seed = 1, .major = 0}, {.seed = 2, .major = 5}, {.seed = 2, .major = 5, .minor = 1}};

TEST(NoiseSource, ARowGetsTheSameNumbersInEveryBatch) {
  NoiseSource batch(kRows);
  NoiseSource alone({kRows[1]});
  NoiseSource reversed({kRows[2], kRows[1], kRows[0]});
  for (int draw = 0; draw < 3; ++draw) {
    const torch::Tensor noise = batch.Randn(StreamId::kPolicyNoise, {3, 5, 2});
    EXPECT_TRUE(torch::equal(noise[1], alone.Randn(StreamId::kPolicyNoise, {1, 5, 2})[0]));
    EXPECT_TRUE(torch::equal(noise.flip(0), reversed.Randn(StreamId::kPolicyNoise, {3, 5, 2})));
  }
}

TEST(NoiseSource, RowsAndDrawsDiffer) {
  NoiseSource source(kRows);
  const torch::Tensor first = source.Randn(StreamId::kPolicyNoise, {3, 4});
  const torch::Tensor second = source.Randn(StreamId::kPolicyNoise, {3, 4});
  EXPECT_FALSE(torch::equal(first, second));
  EXPECT_FALSE(torch::equal(first[0], first[1]));
  EXPECT_FALSE(torch::equal(first[1], first[2]));
}

TEST(NoiseSource, PurposesDoNotDisturbEachOther) {
  NoiseSource plain(kRows);
  NoiseSource busy(kRows);
  busy.RandInt(StreamId::kDiffusionTimestep, 100);
  busy.Uniform(StreamId::kCrop, {3, 2});
  EXPECT_TRUE(torch::equal(plain.Randn(StreamId::kTrainingNoise, {3, 4}),
                           busy.Randn(StreamId::kTrainingNoise, {3, 4})));
}

TEST(NoiseSource, DrawsComeFromTheStreamOfTheRowsKey) {
  NoiseSource source(kRows);
  RandomStream stream(2, StreamId::kCrop, 5, 1);
  const torch::Tensor uniform = source.Uniform(StreamId::kCrop, {3, 2});
  EXPECT_EQ(uniform[2][0].item<float>(), stream.Uniform());
  EXPECT_EQ(uniform[2][1].item<float>(), stream.Uniform());
  EXPECT_EQ(source.RandInt(StreamId::kCrop, 1000)[2].item<std::int64_t>(), stream.UniformInt(1000));
}

TEST(NoiseSource, GivesFloatsOnTheCpuAndIntegersBelowTheBound) {
  NoiseSource source(kRows);
  const torch::Tensor noise = source.Randn(StreamId::kPolicyNoise, {3, 2});
  EXPECT_EQ(noise.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(noise.is_cpu());
  const torch::Tensor integers = source.RandInt(StreamId::kDiffusionTimestep, 1);
  EXPECT_TRUE(torch::equal(integers, torch::zeros({3}, torch::kInt64)));
}

TEST(NoiseSource, RejectsAShapeWithAnotherNumberOfRows) {
  NoiseSource source(kRows);
  try {
    source.Randn(StreamId::kPolicyNoise, {4, 2});
    FAIL() << "four rows were drawn from three";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kShape);
    EXPECT_STREQ(
        error.what(),
        "random numbers of shape [4, 2] were requested from a noise source of 3 rows; the first "
        "size must be the number of rows");
  }
  EXPECT_THROW(source.RandInt(StreamId::kDiffusionTimestep, 0), Error);
}

}  // namespace
}  // namespace dp_bench::policy
