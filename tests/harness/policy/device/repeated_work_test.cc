// Work that is recorded on a device, on the CPU and on a device that repeats recorded operators.
#include "policy/repeated_work.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>
#include <thread>
#include <vector>

#include "support/distant_device/distant_device.h"

namespace dp_bench::policy {
namespace {

using testing::HasSubstr;
using torch::Tensor;

// x and y -> a product, a sum and a convolution of them, with a weight. Counts its calls.
class Example {
 public:
  explicit Example(torch::Device device) : weight(torch::randn({3, 3}).to(device)) {}

  Tensor operator()(const std::vector<Tensor>& inputs) {
    ++n_calls;
    Tensor x = torch::matmul(inputs[0], weight) + inputs[1];
    x.mul_(2.0);
    return torch::cat({x, torch::conv1d(x.unsqueeze(0), weight.unsqueeze(2)).squeeze(0)}, 1);
  }

  Tensor weight;
  int n_calls = 0;
};

std::vector<Tensor> Inputs(torch::Device device, std::int64_t n_rows = 3) {
  return {torch::randn({n_rows, 3}).to(device), torch::randn({3}).to(device)};
}

Tensor RunWith(RepeatedWork& repeated, Example& example, const std::vector<Tensor>& inputs) {
  return repeated.Run(inputs, [&](const std::vector<Tensor>& tensors) { return example(tensors); });
}

TEST(RepeatedWork, RunsTwiceAndIsRecordedOnce) {
  const torch::NoGradGuard no_grad;
  Example example(DistantDevice());
  Example reference = example;
  RepeatedWork repeated;
  for (int i = 0; i < 5; ++i) {
    const std::vector<Tensor> inputs = Inputs(DistantDevice());
    const Tensor result = RunWith(repeated, example, inputs);
    EXPECT_TRUE(torch::equal(result.cpu(), reference(inputs).cpu())) << i;
  }
  EXPECT_EQ(example.n_calls, 3);
}

TEST(RepeatedWork, AResultIsNotOverwrittenByTheNext) {
  const torch::NoGradGuard no_grad;
  Example example(DistantDevice());
  RepeatedWork repeated;
  std::vector<Tensor> results;
  std::vector<Tensor> kept;
  for (int i = 0; i < 4; ++i) {
    results.push_back(RunWith(repeated, example, Inputs(DistantDevice())));
    kept.push_back(results.back().cpu().clone());
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(torch::equal(results[i].cpu(), kept[i])) << i;
}

TEST(RepeatedWork, WeightsThatChangeInPlaceAreUsed) {
  const torch::NoGradGuard no_grad;
  Example example(DistantDevice());
  RepeatedWork repeated;
  const std::vector<Tensor> inputs = Inputs(DistantDevice());
  for (int i = 0; i < 3; ++i) RunWith(repeated, example, inputs);
  example.weight.mul_(0.5);
  Example reference = example;
  EXPECT_TRUE(torch::equal(RunWith(repeated, example, inputs).cpu(), reference(inputs).cpu()));
}

TEST(RepeatedWork, TensorsThatWereReplacedAreUsedAfterForget) {
  const torch::NoGradGuard no_grad;
  Example example(DistantDevice());
  RepeatedWork repeated;
  const std::vector<Tensor> inputs = Inputs(DistantDevice());
  for (int i = 0; i < 3; ++i) RunWith(repeated, example, inputs);
  example.weight = torch::randn({3, 3}).to(DistantDevice());
  repeated.Forget();
  Example reference = example;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(torch::equal(RunWith(repeated, example, inputs).cpu(), reference(inputs).cpu()));
  }
}

TEST(RepeatedWork, OtherShapesAreRecordedAgain) {
  const torch::NoGradGuard no_grad;
  Example example(DistantDevice());
  Example reference = example;
  RepeatedWork repeated;
  for (const std::int64_t n_rows : {3, 3, 3, 3}) {
    const std::vector<Tensor> inputs = Inputs(DistantDevice(), n_rows);
    RunWith(repeated, example, inputs);
  }
  std::vector<Tensor> inputs = Inputs(DistantDevice());
  inputs[1] = torch::randn({3, 3}).to(DistantDevice());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(torch::equal(RunWith(repeated, example, inputs).cpu(), reference(inputs).cpu()));
  }
  EXPECT_EQ(example.n_calls, 6);
}

TEST(RepeatedWork, AThreadThatHasNotRunItBeforePreparesItselfBeforeTheRecording) {
  RepeatedWork repeated;
  const std::vector<Tensor> inputs = Inputs(DistantDevice());
  std::set<std::thread::id> prepared;
  const auto run = [&] {
    const torch::NoGradGuard no_grad;
    return repeated.Run(inputs, [&](const std::vector<Tensor>& tensors) {
      if (prepared.insert(std::this_thread::get_id()).second) torch::ones(1).to(DistantDevice());
      return tensors[0] * 2;
    });
  };
  std::thread(run).join();
  EXPECT_TRUE(torch::equal(run().cpu(), inputs[0].cpu() * 2));
}

TEST(RepeatedWork, HasTheGradientsOfParametersAndInputs) {
  const Tensor weight = torch::randn({3, 3}).to(DistantDevice()).requires_grad_();
  const Tensor unused = torch::randn({2}).to(DistantDevice()).requires_grad_();
  const auto loss_of = [&](const std::vector<Tensor>& inputs) {
    return (torch::matmul(inputs[0], weight) + inputs[1]).square().sum();
  };
  RepeatedWork repeated;
  for (int i = 0; i < 4; ++i) {
    std::vector<Tensor> inputs = Inputs(DistantDevice());
    inputs[0].requires_grad_();
    Tensor expected = loss_of(inputs);
    const auto gradients = torch::autograd::grad({expected}, {weight, inputs[0]});
    expected = expected.detach();  // as a loss of before, which is gone when the next is computed
    Tensor found = repeated.RunWithGradient(inputs, {weight, unused}, loss_of);
    EXPECT_TRUE(torch::equal(found.cpu(), expected.cpu())) << i;
    found.backward();
    EXPECT_TRUE(torch::equal(weight.grad().cpu(), gradients[0].cpu())) << i;
    EXPECT_TRUE(torch::equal(inputs[0].grad().cpu(), gradients[1].cpu())) << i;
    EXPECT_FALSE(unused.grad().defined());
    weight.mutable_grad().reset();
  }
}

TEST(RepeatedWork, WhatCannotBeRecordedWithGradientSaysWhy) {
  const Tensor weight = torch::randn({3}).to(DistantDevice()).requires_grad_();
  const auto copies = [&](const std::vector<Tensor>& inputs) {
    return (inputs[1] * weight * torch::ones({3}).to(DistantDevice())).sum();
  };
  RepeatedWork repeated;
  const std::vector<Tensor> inputs = Inputs(DistantDevice());
  repeated.RunWithGradient(inputs, {weight}, copies);
  EXPECT_THROW(repeated.RunWithGradient(inputs, {weight}, copies), RecordingError);
}

TEST(RepeatedWork, OnTheCpuItRunsEachTime) {
  const torch::NoGradGuard no_grad;
  Example example(torch::kCPU);
  RepeatedWork repeated;
  for (int i = 0; i < 3; ++i) RunWith(repeated, example, Inputs(torch::kCPU));
  EXPECT_EQ(example.n_calls, 3);
}

TEST(RepeatedWork, WithGradientsItRunsEachTime) {
  Example example(DistantDevice());
  RepeatedWork repeated;
  for (int i = 0; i < 3; ++i) RunWith(repeated, example, Inputs(DistantDevice()));
  EXPECT_EQ(example.n_calls, 3);
}

TEST(RepeatedWork, AnErrorWhileRecordingReachesTheCaller) {
  const torch::NoGradGuard no_grad;
  RepeatedWork repeated;
  const std::vector<Tensor> inputs = Inputs(DistantDevice());
  const auto copies = [](const std::vector<Tensor>& tensors) {
    return tensors[0] + torch::ones({3}).to(DistantDevice());
  };
  repeated.Run(inputs, copies);
  try {
    repeated.Run(inputs, copies);
    FAIL() << "a copy from the host was recorded";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a copy between host and device was recorded"));
  }
  EXPECT_TRUE(torch::equal((inputs[0] * 2).cpu(), inputs[0].cpu() * 2)) << "recording has ended";
}

}  // namespace
}  // namespace dp_bench::policy
