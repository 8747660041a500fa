// From host arrays to tensors of a device, tested on the CPU and on a device with separate memory.
#include "policy/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <utility>

#include "dp_bench/error.h"
#include "support/distant_device/distant_device.h"
#include "support/error_of.h"

namespace dp_bench::policy {
namespace {

using testing::HasSubstr;

Array Numbers(DType dtype, Shape shape) {
  Array array(dtype, std::move(shape));
  std::uint8_t next = 0;
  for (std::byte& byte : array.bytes()) byte = std::byte{next++};
  return array;
}

ShapeMeta OneCamera() {
  ShapeMeta meta;
  meta.obs = {{.name = "image", .type = KeyType::kRgb, .shape = {3, 4, 5}, .dtype = DType::kUInt8}};
  return meta;
}

TEST(OpenDevice, KnowsWhatThisMachineHas) {
  EXPECT_EQ(OpenDevice("cpu"), torch::Device(torch::kCPU));
  EXPECT_EQ(OpenDevice("hpu"), torch::Device(torch::kHPU));
  EXPECT_EQ(OpenDevice("hpu:0"), DistantDevice());
}

TEST(OpenDevice, ADeviceThatIsNotThereIsNamed) {
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [] { OpenDevice("hpu:1"); }),
              HasSubstr("'hpu:1', but this LibTorch finds 1 devices"));
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [] { OpenDevice("xla"); }),
              HasSubstr("'xla', but this LibTorch finds 0 devices"));
}

TEST(OpenDevice, ShapesWithoutValuesAreNoDeviceToComputeOn) {
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [] { OpenDevice("meta"); }),
              HasSubstr("finds 0 devices"));
}

TEST(OpenDevice, WhatIsNoDeviceIsNamed) {
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cpu cpu"}) {
    EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { OpenDevice(name); }),
                HasSubstr("training.device is '" + std::string(name) + "'; expected 'cpu'"));
  }
}

TEST(OpenDevice, AnotherOneThanTheCpuGetsRepeatableAlgorithms) {
  const at::Context& context = at::globalContext();
  OpenDevice("hpu");
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_TRUE(context.deterministicCuDNN());
  EXPECT_FALSE(context.benchmarkCuDNN());
  EXPECT_FALSE(context.allowTF32CuDNN());
  EXPECT_FALSE(context.allowTF32CuBLAS());
}

TEST(ToDevice, OnTheCpuTheArrayItself) {
  const Array array = Numbers(DType::kUInt8, {2, 3});
  EXPECT_EQ(ToDevice(array, torch::kCPU).const_data_ptr(),
            static_cast<const void*>(array.bytes().data()));
}

TEST(ToDevice, ElsewhereACopyThatTheArrayMayLeave) {
  Array array = Numbers(DType::kUInt16, {2, 3});
  const torch::Tensor tensor = ToDevice(array, DistantDevice());
  const Array before = array;
  array.bytes()[0] = std::byte{99};
  EXPECT_EQ(tensor.device(), DistantDevice());
  EXPECT_TRUE(torch::equal(tensor.cpu(), ToTensor(before)));
}

TEST(ObsToDevice, ImagesTravelAsStoredAndBecomeViewsWithChannelsFirst) {
  const ArrayMap obs = {{"image", Numbers(DType::kUInt8, {1, 2, 4, 5, 3})}};
  for (const c10::Device device : {c10::Device(torch::kCPU), DistantDevice()}) {
    const torch::Tensor image = ObsToDevice(obs, OneCamera(), device).at("image");
    EXPECT_EQ(image.scalar_type(), torch::kUInt8);
    EXPECT_EQ(image.sizes(), at::IntArrayRef({1, 2, 3, 4, 5}));
    EXPECT_EQ(image.stride(2), 1) << "the channels of a pixel lie together";
    EXPECT_TRUE(torch::equal(image.cpu().permute({0, 1, 3, 4, 2}), ToTensor(obs.at("image"))));
  }
}

TEST(ObsToDevice, AMissingKeyIsNamed) {
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [] { ObsToDevice({}, OneCamera(), torch::kCPU); }),
              HasSubstr("'image'"));
}

// Other tests rely on this.
TEST(DistantDevice, RefusesTensorsOfTwoDevices) {
  const torch::Tensor far = torch::ones({3}, DistantDevice());
  EXPECT_THROW(far + torch::ones({3}), c10::Error);
  EXPECT_THROW(torch::matmul(torch::ones({3, 3}), far), c10::Error);
  EXPECT_NO_THROW(far + torch::tensor(1.0));
}

TEST(DistantDeviceDeathTest, APointerToItsMemoryLeadsNowhere) {
  const torch::Tensor far = torch::ones({3}, DistantDevice());
  EXPECT_EXIT(static_cast<void>(std::printf("%f", far.const_data_ptr<float>()[1])),
              testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace dp_bench::policy
