// Crop and resize of images, in both orders. The golden numbers are torchvision's.
#include "dp_bench/policy/vision/vision_pipeline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "support/error_of.h"
#include "support/golden.h"

namespace dp_bench::policy {
namespace {

// images in [0, 1]
Normalizer MakeNormalizer() {
  Normalizer::Fields fields;
  fields["cam"] = {.scale = torch::ones({3}),
                   .offset = torch::zeros({3}),
                   .stats = {},
                   .mode = NormalizeMode::kImageGaussian};
  return Normalizer(std::move(fields));
}

std::vector<Camera> OneCamera(std::int64_t height, std::int64_t width) {
  return {{.rgb = {.name = "cam",
                   .type = KeyType::kRgb,
                   .shape = {3, height, width},
                   .dtype = DType::kUInt8}}};
}

torch::Tensor ResizeGolden(const std::string& name) {
  return ToTensor(Golden("image_resize").tensors.at(name));
}

torch::Tensor Prepare(const std::string& params, const torch::Tensor& images,
                      NoiseSource* augment = nullptr) {
  const std::vector<Camera> cameras = OneCamera(images.size(2), images.size(3));
  const VisionPipeline pipeline(Config::FromJson(params), cameras);
  const torch::Tensor rgb =
      pipeline.Prepare(cameras[0], {{"cam", images.unsqueeze(1)}}, MakeNormalizer(), augment).rgb;
  EXPECT_EQ(rgb.size(3), pipeline.height());
  EXPECT_EQ(rgb.size(4), pipeline.width());
  return rgb.squeeze(1);
}

// LibTorch itself has other bits with one thread.
TEST(VisionPipeline, ResizesToTheBitsOfLibTorchWithAnyNumberOfThreads) {
  const int n_threads = at::get_num_threads();
  for (const auto& [height, width] : {std::pair{88L, 116L}, std::pair{120L, 140L}}) {
    const torch::Tensor images = torch::randint(256, {2, 93, 124, 3}, torch::kUInt8);
    const std::string params = fmt::format(R"({{"resize_shape": [{}, {}]}})", height, width);
    const torch::Tensor pixels = images.permute({0, 3, 1, 2});
    at::set_num_threads(2);
    const torch::Tensor wanted = at::upsample_bilinear2d(pixels.to(torch::kFloat32).div(255.0),
                                                         {height, width}, /*align_corners=*/false);
    const torch::NoGradGuard inference;
    for (const int n : {1, 2, 3}) {
      at::set_num_threads(n);
      const torch::Tensor found = Prepare(params, pixels);
      EXPECT_TRUE(torch::equal(found, MakeNormalizer().Normalize("cam", wanted))) << n;
    }
  }
  at::set_num_threads(n_threads);
}

TEST(VisionPipeline, ResizesFirstAsTorchvisionDoes) {
  const std::pair<const char*, const char*> cases[] = {
      {"smaller", R"({"resize_first": true, "resize_shape": [9, 8], "crop_shape": [6, 5]})"},
      {"larger", R"({"resize_first": true, "resize_shape": [20, 21], "crop_shape": [18, 18]})"},
      {"mixed", R"({"resize_first": true, "resize_shape": [8, 20], "crop_shape": [7, 14]})"}};
  for (const auto& [name, params] : cases) {
    const torch::Tensor found = Prepare(params, ResizeGolden("images"));
    ASSERT_EQ(found.sizes(), ResizeGolden(name).sizes()) << name;
    EXPECT_LE((found - ResizeGolden(name)).abs().max().item<double>(), 1e-6) << name;
  }
}

TEST(VisionPipeline, WithoutASizeResizingFirstChangesNothing) {
  const torch::Tensor images = ResizeGolden("images");
  EXPECT_TRUE(torch::equal(Prepare(R"({"resize_first": true, "crop_shape": [6, 5]})", images),
                           Prepare(R"({"crop_shape": [6, 5]})", images)));
}

TEST(VisionPipeline, AFractionIsOfTheResizedImage) {
  const torch::Tensor found =
      Prepare(R"({"resize_first": true, "resize_shape": [10, 20], "crop_shape": [0.5, 0.5]})",
              ResizeGolden("images"));
  EXPECT_EQ(found.sizes(), (std::vector<std::int64_t>{2, 3, 5, 10}));
}

TEST(VisionPipeline, RandomCropsAreCutFromTheResizedImage) {
  const char* params = R"({"resize_first": true, "resize_shape": [9, 8], "crop_shape": [6, 5]})";
  const torch::Tensor whole =
      Prepare(R"({"resize_first": true, "resize_shape": [9, 8]})", ResizeGolden("images"));
  NoiseSource noise({NoiseKey{.seed = 1}, NoiseKey{.seed = 2}});
  const torch::Tensor cropped = Prepare(params, ResizeGolden("images"), &noise);
  int n_places = 0;
  for (std::int64_t top = 0; top <= 3; ++top) {
    for (std::int64_t left = 0; left <= 3; ++left) {
      if (torch::equal(whole[0].narrow(1, top, 6).narrow(2, left, 5), cropped[0])) ++n_places;
    }
  }
  EXPECT_EQ(n_places, 1);
}

TEST(VisionPipeline, ACropLargerThanTheResizedImageIsRefused) {
  const auto make = [] {
    const VisionPipeline pipeline(
        Config::FromJson(
            R"({"resize_first": true, "resize_shape": [9, 8], "crop_shape": [10, 8]})"),
        OneCamera(17, 13));
  };
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, make), testing::HasSubstr("[9, 8]"));
}

}  // namespace
}  // namespace dp_bench::policy
