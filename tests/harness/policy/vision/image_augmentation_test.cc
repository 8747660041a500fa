// Colour changes compared with torchvision, and the guarantees for rows, steps and configs.
#include "policy/vision/image_augmentation.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "dp_bench/error.h"
#include "support/difference.h"
#include "support/error_of.h"
#include "support/golden.h"
#include "support/small_policy.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

// float32 in another order, and powers that our code computes in float64
constexpr double kTolerance = 1e-5;

constexpr auto kEverything = R"({"augmentation": {"identity": {}, "brightness": {}, "contrast": {},
    "saturation": {}, "sharpness": {}, "hue": {}, "gamma": {}, "random_mask": {},
    "border_cutout": {}, "gaussian_noise": {}}})";

ImageAugmentation Make(const std::string& json) {
  return ImageAugmentation(Config::FromJson(json));
}

// A single type, `name: settings`.
ImageAugmentation MakeOnly(const std::string& entry) {
  return Make(fmt::format(R"({{"augmentation": {{{}}}}})", entry));
}

// Sizes that are not multiples of any vector register.
Tensor RandomImages(std::int64_t rows, std::int64_t n_obs_steps = 2) {
  torch::manual_seed(0);
  return torch::rand({rows, n_obs_steps, 3, 7, 9});
}

Tensor GoldenTensor(const std::string& name) {
  return ToTensor(Golden("image_augmentation").tensors.at(name));
}

TEST(ImageOperations, ColourChangesEqualThoseOfTorchvision) {
  const std::vector<std::pair<std::string, Tensor (*)(const Tensor&, const Tensor&)>> changes = {
      {"brightness", AdjustBrightness},
      {"contrast", AdjustContrast},
      {"saturation", AdjustSaturation},
      {"sharpness", AdjustSharpness},
      {"hue", AdjustHue},
      {"gamma", AdjustGamma},
  };
  for (const auto& [name, adjust] : changes) {
    const Tensor found = adjust(GoldenTensor("images"), GoldenTensor(name + ".factor"));
    EXPECT_LE(Difference(found, GoldenTensor(name + ".expected")), kTolerance) << name;
  }
}

TEST(ImageOperations, ImagesOfTwoRowsOfPixelsAreNotBlurred) {
  const Tensor thin = GoldenTensor("thin");
  EXPECT_TRUE(torch::equal(AdjustSharpness(thin, torch::zeros({1})), thin));
  EXPECT_TRUE(torch::equal(GoldenTensor("thin.sharpness"), thin));
}

TEST(ImageOperations, NoiseHasItsSigmaAndDiffersBetweenRowsStepsAndChannels) {
  constexpr double kSigma = 0.1;
  const Tensor grey = torch::full({2, 2, 3, 64, 64}, 0.5F);
  const Tensor noise = (AddGaussianNoise(grey, {1, 2}, kSigma) - 0.5).flatten(0, 2);  // [12, H, W]
  // 49152 values: four standard errors
  EXPECT_NEAR(noise.mean().item<double>(), 0.0, 4.0 * kSigma / std::sqrt(49152.0));
  EXPECT_NEAR(noise.std().item<double>(), kSigma, 4.0 * kSigma / std::sqrt(2.0 * 49152.0));
  for (std::int64_t i = 1; i < noise.size(0); ++i) EXPECT_FALSE(torch::equal(noise[0], noise[i]));
}

TEST(ImageAugmentation, ChangesNothingWithoutAConfig) {
  const Tensor images = RandomImages(3);
  NoiseSource noise = NoiseOfRows(3);
  for (const ImageAugmentation& none :
       {ImageAugmentation(), Make("{}"), Make(R"({"augmentation": {}})")}) {
    EXPECT_TRUE(none.empty());
    EXPECT_TRUE(none.Apply(images, noise).is_same(images));
  }
}

TEST(ImageAugmentation, IdentityLeavesEveryBit) {
  const Tensor images = RandomImages(3);
  NoiseSource noise = NoiseOfRows(3);
  const ImageAugmentation identity = MakeOnly(R"("identity": {})");
  EXPECT_FALSE(identity.empty());
  EXPECT_TRUE(torch::equal(identity.Apply(images, noise), images));
}

TEST(ImageAugmentation, LeavesItsInputAlone) {
  const Tensor images = RandomImages(24);
  NoiseSource noise = NoiseOfRows(24);
  EXPECT_FALSE(torch::equal(Make(kEverything).Apply(images, noise), images));
  EXPECT_TRUE(torch::equal(images, RandomImages(24)));
}

TEST(ImageAugmentation, ARowGetsTheSameBitsInEveryBatch) {
  constexpr std::int64_t kRows = 48;
  const ImageAugmentation augmentation = Make(kEverything);
  const Tensor images = RandomImages(kRows);
  NoiseSource noise = NoiseOfRows(kRows);
  const std::vector<NoiseKey> keys = noise.rows();
  NoiseSource reversed_noise({keys.rbegin(), keys.rend()});
  const Tensor together = augmentation.Apply(images, noise);
  EXPECT_TRUE(torch::equal(augmentation.Apply(images.flip(0), reversed_noise), together.flip(0)));
  for (std::int64_t row = 0; row < kRows; ++row) {
    NoiseSource alone({keys[static_cast<std::size_t>(row)]});
    const Tensor found = augmentation.Apply(images.narrow(0, row, 1), alone);
    EXPECT_TRUE(torch::equal(found[0], together[row])) << row;
  }
}

TEST(ImageAugmentation, TheOrderInMemoryAndTheNumberOfThreadsChangeNoBit) {
  const ImageAugmentation augmentation = Make(kEverything);
  const Tensor images = RandomImages(48);
  const Tensor channels_last =
      images.permute({0, 1, 3, 4, 2}).contiguous().permute({0, 1, 4, 2, 3});
  const auto run = [&](const Tensor& input, int n_threads) {
    torch::set_num_threads(n_threads);
    NoiseSource noise = NoiseOfRows(48);
    return augmentation.Apply(input, noise);
  };
  const int n_threads = torch::get_num_threads();
  const Tensor one = run(images, 1);
  const Tensor three = run(images, 3);
  const Tensor last = run(channels_last, 3);
  torch::set_num_threads(n_threads);
  EXPECT_TRUE(torch::equal(one, three));
  EXPECT_TRUE(torch::equal(one, last));
}

TEST(ImageAugmentation, EveryChangeTakesTheSameNumberOfDraws) {
  const Tensor images = RandomImages(2);
  const auto draw_after = [&](const std::string& entry) {
    NoiseSource noise = NoiseOfRows(2);
    MakeOnly(entry).Apply(images, noise);
    return noise.Uniform(StreamId::kAugment, {2, 4});
  };
  const Tensor expected = draw_after(R"("identity": {})");
  for (const char* entry : {R"("hue": {})", R"("random_mask": {})", R"("gaussian_noise": {})"}) {
    EXPECT_TRUE(torch::equal(draw_after(entry), expected)) << entry;
  }
}

TEST(ImageAugmentation, DrawsAnewInEveryCall) {
  const Tensor images = RandomImages(8);
  const ImageAugmentation augmentation = MakeOnly(R"("brightness": {})");
  NoiseSource noise = NoiseOfRows(8);
  const Tensor first = augmentation.Apply(images, noise);
  EXPECT_FALSE(torch::equal(augmentation.Apply(images, noise), first));
}

TEST(ImageAugmentation, TypesAreDrawnByTheirWeights) {
  constexpr std::int64_t kRows = 4000;
  // the value that 0.5 becomes identifies the type
  const ImageAugmentation augmentation = Make(R"({"augmentation": {
      "identity": {"weight": 1}, "border_cutout": {"weight": 2, "fraction": 1},
      "hue": {"weight": 0}, "brightness": {"weight": 5, "range": [0.5, 0.5]}}})");
  NoiseSource noise = NoiseOfRows(kRows);
  const Tensor values =
      augmentation.Apply(torch::full({kRows, 1, 3, 1, 1}, 0.5F), noise).select(2, 0).flatten();
  const auto expect_share = [&](double value, double share) {
    const double deviation = std::sqrt(kRows * share * (1.0 - share));
    EXPECT_NEAR((values == value).sum().item<double>(), kRows * share, 3.0 * deviation) << value;
  };
  expect_share(0.5, 0.125);
  expect_share(0.0, 0.25);
  expect_share(0.25, 0.625);
  EXPECT_EQ(((values == 0.5) | (values == 0.0) | (values == 0.25)).sum().item<std::int64_t>(),
            kRows);
}

TEST(ImageAugmentation, IdentityHasTripleWeightByDefault) {
  constexpr std::int64_t kRows = 2000;
  NoiseSource noise = NoiseOfRows(kRows);
  const Tensor images = RandomImages(kRows, 1);
  const Tensor found = Make(kEverything).Apply(images, noise);
  const double unchanged = (found == images).flatten(1).all(1).sum().item<double>();
  EXPECT_NEAR(unchanged, kRows * 0.25, 3.0 * std::sqrt(kRows * 0.25 * 0.75));
}

TEST(ImageAugmentation, FactorsFillTheirRange) {
  NoiseSource noise = NoiseOfRows(1000);
  const Tensor values = MakeOnly(R"("brightness": {"range": [0.25, 0.75]})")
                            .Apply(torch::ones({1000, 1, 3, 1, 1}), noise);
  EXPECT_NEAR(values.min().item<double>(), 0.25, 0.005);
  EXPECT_NEAR(values.max().item<double>(), 0.75, 0.005);
  EXPECT_NEAR(values.mean().item<double>(), 0.5, 0.015);
}

TEST(ImageAugmentation, ImagesStayBetweenZeroAndOne) {
  Tensor images = RandomImages(200);
  images.view(-1).slice(0, 0, images.numel(), 5).round_();  // black, white and full colours too
  const ImageAugmentation strong = Make(R"({"augmentation": {
      "brightness": {"range": [0, 10]}, "contrast": {"range": [0, 10]},
      "saturation": {"range": [0, 10]}, "sharpness": {"range": [0, 10]},
      "hue": {"range": [-0.5, 0.5]}, "gamma": {"range": [0, 10]}, "gaussian_noise": {"sigma": 1}}})");
  NoiseSource noise = NoiseOfRows(200);
  const Tensor found = strong.Apply(images, noise);
  EXPECT_EQ(found.sizes(), images.sizes());
  EXPECT_GE(found.min().item<float>(), 0.0F);
  EXPECT_LE(found.max().item<float>(), 1.0F);
}

TEST(ImageAugmentation, TheStepsOfARowShareTheChangeButNotTheNoise) {
  const Tensor one_step = RandomImages(100, 1);
  const Tensor images = one_step.repeat({1, 2, 1, 1, 1});
  NoiseSource noise = NoiseOfRows(100);
  const Tensor found =
      Make(R"({"augmentation": {"brightness": {}, "contrast": {}, "saturation": {}, "hue": {},
          "sharpness": {}, "gamma": {}, "random_mask": {}, "border_cutout": {}}})")
          .Apply(images, noise);
  EXPECT_TRUE(torch::equal(found.select(1, 0), found.select(1, 1)));
  const Tensor noisy = MakeOnly(R"("gaussian_noise": {})").Apply(images, noise);
  EXPECT_FALSE((noisy.select(1, 0) == noisy.select(1, 1)).flatten(1).all(1).any().item<bool>());
}

// The first and last place along `dim` at which a mask [H, W] is set.
std::pair<std::int64_t, std::int64_t> Extent(const Tensor& mask, int dim) {
  const Tensor places = mask.any(1 - dim).nonzero();
  return {places.min().item<std::int64_t>(), places.max().item<std::int64_t>()};
}

TEST(ImageAugmentation, TheMaskIsOneRectangleThatReachesEveryPlace) {
  constexpr std::int64_t kRows = 400;
  NoiseSource noise = NoiseOfRows(kRows);
  const Tensor found = MakeOnly(R"("random_mask": {"size": [0.45, 0.2]})")
                           .Apply(torch::ones({kRows, 2, 3, 7, 10}), noise);
  std::set<std::pair<std::int64_t, std::int64_t>> corners;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const Tensor is_hit = (found[row] == 0.0).flatten(0, 1);
    EXPECT_TRUE(torch::equal(is_hit.all(0), is_hit.any(0))) << "steps and channels differ";
    const auto [top, bottom] = Extent(is_hit[0], 0);
    const auto [left, right] = Extent(is_hit[0], 1);
    EXPECT_EQ(bottom - top, 2);  // 3 of 7
    EXPECT_EQ(right - left, 1);  // 2 of 10
    EXPECT_EQ(is_hit[0].sum().item<std::int64_t>(), 6);
    corners.emplace(top, left);
  }
  EXPECT_EQ(corners.size(), 5U * 9U);
}

TEST(ImageAugmentation, TheBorderIsCutAtOneSideOfFour) {
  constexpr std::int64_t kRows = 400;
  NoiseSource noise = NoiseOfRows(kRows);
  const Tensor found = MakeOnly(R"("border_cutout": {"fraction": 0.3})")
                           .Apply(torch::ones({kRows, 1, 3, 7, 10}), noise);
  std::vector<Tensor> sides(4, torch::ones({3, 7, 10}));
  for (Tensor& side : sides) side = side.clone();
  sides[0].slice(1, 0, 2).zero_();  // 2 of 7 rows
  sides[1].slice(1, 5, 7).zero_();
  sides[2].slice(2, 0, 3).zero_();  // 3 of 10 columns
  sides[3].slice(2, 7, 10).zero_();
  double total = 0.0;
  for (const Tensor& side : sides) {
    const double count = (found == side).flatten(1).all(1).sum().item<double>();
    EXPECT_NEAR(count, kRows / 4.0, 3.0 * std::sqrt(kRows * 0.25 * 0.75));
    total += count;
  }
  EXPECT_EQ(total, kRows);
}

std::string ConfigMessage(const std::string& entry) {
  return MessageOf(ErrorCode::kConfig, [&] { MakeOnly(entry); });
}

TEST(ImageAugmentation, AnUnknownTypeIsRefusedWithThoseThatExist) {
  EXPECT_EQ(ConfigMessage(R"("blur": {})"),
            "<text>:1: augmentation.blur: there is no augmentation 'blur'; there are "
            "border_cutout, brightness, contrast, gamma, gaussian_noise, hue, identity, "
            "random_mask, saturation, sharpness");
}

TEST(ImageAugmentation, WeightsMustNotBeNegativeNorAllZero) {
  EXPECT_EQ(ConfigMessage(R"("hue": {"weight": -1})"),
            "<text>:1: augmentation.hue.weight: expected a number from 0 to 1000000, found -1");
  EXPECT_EQ(ConfigMessage(R"("hue": {"weight": 0}, "identity": {"weight": 0})"),
            "<text>:1: augmentation: all weights are 0; give one type a weight above 0, or leave "
            "'augmentation' out");
}

TEST(ImageAugmentation, SettingsOutOfRangeAreRefusedWithTheirKey) {
  EXPECT_EQ(
      ConfigMessage(R"("hue": {"range": [0.1, -0.1]})"),
      "<text>:1: augmentation.hue.range: expected [low, high] with -0.5 <= low <= high <= 0.5, "
      "found [0.1, -0.1]");
  EXPECT_EQ(ConfigMessage(R"("gamma": {"range": [-0.5, 2]})"),
            "<text>:1: augmentation.gamma.range: expected [low, high] with 0 <= low <= high <= 10, "
            "found [-0.5, 2]");
  EXPECT_EQ(ConfigMessage(R"("contrast": {"range": [0.5]})"),
            "<text>:1: augmentation.contrast.range: expected 2 numbers, found 1");
  EXPECT_EQ(ConfigMessage(R"("random_mask": {"size": [0.1, 1.5]})"),
            "<text>:1: augmentation.random_mask.size: expected shares of height and width above 0 "
            "and at most 1, found [0.1, 1.5]");
  EXPECT_EQ(
      ConfigMessage(R"("border_cutout": {"fraction": 15})"),
      "<text>:1: augmentation.border_cutout.fraction: expected a number from 0 to 1, found 15");
  EXPECT_EQ(
      ConfigMessage(R"("gaussian_noise": {"sigma": -0.1})"),
      "<text>:1: augmentation.gaussian_noise.sigma: expected a number from 0 to 1, found -0.1");
}

TEST(ImageAugmentation, ASettingThatItsTypeDoesNotHaveIsReported) {
  const Config params = Config::FromJson(R"({"augmentation": {"hue": {"sigma": 0.1}}})");
  const ImageAugmentation augmentation(params);
  const std::string message = MessageOf(ErrorCode::kConfig, [&] { params.RejectUnread(); });
  EXPECT_NE(message.find("augmentation.hue.sigma"), std::string::npos) << message;
}

TEST(ImageAugmentation, RefusesOtherShapesAndDtypes) {
  const ImageAugmentation augmentation = MakeOnly(R"("hue": {})");
  NoiseSource noise = NoiseOfRows(2);
  EXPECT_EQ(MessageOf(ErrorCode::kShape,
                      [&] {
                        augmentation.Apply(torch::zeros({2, 3, 4, 4}), noise);
                      }),
            "image augmentation needs float32 images of shape [2, To, 3, H, W], one for each row "
            "of the noise source; found Float of shape [2, 3, 4, 4]");
  for (const Tensor& images : {torch::zeros({3, 1, 3, 4, 4}), torch::zeros({2, 1, 1, 4, 4}),
                               torch::zeros({2, 1, 3, 4, 4}, torch::kUInt8)}) {
    EXPECT_EQ(CodeOf([&] { augmentation.Apply(images, noise); }), ErrorCode::kShape);
  }
}

}  // namespace
}  // namespace dp_bench::policy
