// What MemoryPeak counts and what it does not.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <thread>

#include "train/step_memory.h"

namespace dp_bench::train {
namespace {

constexpr std::int64_t kMebibyte = 1 << 20;

torch::Tensor Floats(std::int64_t mebibytes) { return torch::empty({mebibytes * kMebibyte / 4}); }

TEST(MemoryPeak, IsTheMostThatLivedAtOneTime) {
  const MemoryPeak memory;
  torch::Tensor a = Floats(4);
  a.reset();
  const torch::Tensor b = Floats(3);
  torch::Tensor c = Floats(2);
  c.reset();
  const torch::Tensor d = Floats(1);
  EXPECT_EQ(memory.peak(), 5 * kMebibyte);
  EXPECT_EQ(memory.current(), 4 * kMebibyte);
}

TEST(MemoryPeak, DoesNotCountWhatWasThereBefore) {
  torch::Tensor old = Floats(4);
  const MemoryPeak memory;
  old.reset();
  EXPECT_EQ(memory.current(), 0);
  EXPECT_EQ(memory.peak(), 0);
}

TEST(MemoryPeak, CountsViewsOnce) {
  const MemoryPeak memory;
  const torch::Tensor a = Floats(2);
  const torch::Tensor view = a.view({2, -1}).t();
  EXPECT_EQ(memory.peak(), 2 * kMebibyte);
}

TEST(MemoryPeak, SeesTheBackwardPass) {
  const torch::Tensor x = Floats(1).requires_grad_();
  const MemoryPeak memory;
  const torch::Tensor loss = x.exp().sum();  // keeps exp(x) for the backward pass
  EXPECT_GE(memory.current(), kMebibyte);
  EXPECT_LT(memory.peak(), 2 * kMebibyte);
  loss.backward();
  EXPECT_GE(memory.peak(), 2 * kMebibyte);  // and now the gradient of x
}

TEST(MemoryPeak, DoesNotSeeOtherThreads) {
  const MemoryPeak memory;
  std::thread other([] { Floats(1); });
  other.join();
  EXPECT_EQ(memory.peak(), 0);
}

TEST(MemoryPeak, StopsWhenItIsGone) {
  { const MemoryPeak first; }
  const torch::Tensor a = Floats(1);
  const MemoryPeak second;
  EXPECT_EQ(second.current(), 0);
}

}  // namespace
}  // namespace dp_bench::train
