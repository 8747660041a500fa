// What a control loop accepts as an observation, and how it copies it.
#include "control/obs_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "dp_bench/error.h"
#include "support/error_of.h"

namespace dp_bench::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<KeySpec> kKeys = {
    {.name = "depth", .type = KeyType::kDepth, .shape = {1, 2, 2}, .dtype = DType::kUInt16},
    {.name = "image", .type = KeyType::kRgb, .shape = {3, 2, 2}, .dtype = DType::kUInt8},
    {.name = "pos", .shape = {3}}};

// Bit for bit.
template <class Values>
bool BeginsWith(std::span<const std::byte> bytes, const Values& values) {
  return std::ranges::equal(bytes.first(sizeof(values)), std::as_bytes(std::span(values)));
}

class ObsInputTest : public testing::Test {
 protected:
  ObsInputTest() { std::iota(image_.begin(), image_.end(), std::uint8_t{1}); }

  ObsView Depth() const { return {"depth", depth_.data(), {2, 2, 1}}; }
  ObsView Image() const { return {"image", image_.data(), {2, 2, 3}}; }
  ObsView Pos() const { return {"pos", pos_.data(), {3}}; }

  void Copy(const std::vector<ObsView>& obs) { input_.CopyTo(&history_, obs); }

  // The image that arrives in the history.
  std::vector<int> Copied(const ObsView& image) {
    Copy({Depth(), image, Pos()});
    std::vector<int> values;
    for (const std::byte value : history_.Next(1)) values.push_back(std::to_integer<int>(value));
    return values;
  }

  std::string ShapeError(const std::vector<ObsView>& obs) {
    return MessageOf(ErrorCode::kShape, [&] { Copy(obs); });
  }

  std::array<std::uint16_t, 4> depth_ = {1000, 2000, 3000, 65535};
  std::array<std::uint8_t, 12> image_ = {};
  std::array<float, 3> pos_ = {0.5F, 1.5F, 2.5F};
  ObsHistory history_{kKeys, /*n_obs_steps=*/2};
  ObsInput input_{kKeys};
};

TEST_F(ObsInputTest, CopiesEachKeyInAnyOrder) {
  Copy({Pos(), Image(), Depth()});
  EXPECT_TRUE(BeginsWith(history_.Next(0), depth_));
  EXPECT_TRUE(BeginsWith(history_.Next(1), image_));
  EXPECT_TRUE(BeginsWith(history_.Next(2), pos_));
}

TEST_F(ObsInputTest, SkipsThePaddingOfRows) {
  const std::vector<std::uint8_t> padded = {1, 2, 3, 4, 5, 6, 99, 99, 7, 8, 9, 10, 11, 12};
  EXPECT_THAT(Copied({"image", padded.data(), {2, 2, 3}, {8, 3, 1}}),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
}

TEST_F(ObsInputTest, TakesImagesWithSeparateChannels) {
  const std::vector<std::uint8_t> planes = {1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12};
  EXPECT_THAT(Copied({"image", planes.data(), {2, 2, 3}, {2, 1, 4}}),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
}

TEST_F(ObsInputTest, NegativeStridesSwapColoursAndFlipImages) {
  EXPECT_THAT(Copied({"image", image_.data() + 2, {2, 2, 3}, {6, 3, -1}}),
              ElementsAre(3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10));
  EXPECT_THAT(Copied({"image", image_.data() + 6, {2, 2, 3}, {-6, 3, 1}}),
              ElementsAre(7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6));
}

TEST_F(ObsInputTest, StridesAreBytesForWideElementsToo) {
  const std::vector<std::uint16_t> padded_depth = {1, 2, 99, 3, 4, 99};
  const std::vector<float> every_second = {1.0F, 99.0F, 2.0F, 99.0F, 3.0F};
  Copy({{"depth", padded_depth.data(), {2, 2, 1}, {6, 2, 2}},
        Image(),
        {"pos", every_second.data(), {3}, {8}}});
  const std::array<std::uint16_t, 4> depth = {1, 2, 3, 4};
  const std::array<float, 3> pos = {1.0F, 2.0F, 3.0F};
  EXPECT_TRUE(BeginsWith(history_.Next(0), depth));
  EXPECT_TRUE(BeginsWith(history_.Next(2), pos));
}

TEST_F(ObsInputTest, AnUnknownKeyNamesTheNearestAndAllOthers) {
  const ObsView wrong("imge", image_.data(), {2, 2, 3});
  EXPECT_THAT(
      ShapeError({Depth(), wrong, Pos()}),
      HasSubstr("'imge' is not one that the policy reads (did you mean 'image'?). It reads: "
                "depth uint16 [2, 2, 1]; image uint8 [2, 2, 3]; pos float32 [3]"));
}

TEST_F(ObsInputTest, EachKeyIsNeededOnce) {
  EXPECT_THAT(ShapeError({Depth(), Image()}), HasSubstr("'pos' is missing. The policy reads: "));
  EXPECT_THAT(ShapeError({}), HasSubstr("'depth' is missing"));
  EXPECT_THAT(ShapeError({Depth(), Image(), Pos(), Image()}), HasSubstr("'image' is given twice"));
}

TEST_F(ObsInputTest, AWrongTypeOrShapeNamesBoth) {
  const std::array<double, 3> doubles = {};
  EXPECT_THAT(ShapeError({Depth(), Image(), {"pos", doubles.data(), {3}}}),
              HasSubstr("'pos' is float64, expected float32"));
  EXPECT_THAT(ShapeError({Depth(), Image(), {"pos", pos_.data(), {2}}}),
              HasSubstr("'pos' has shape [2], expected [3]"));
  EXPECT_THAT(
      ShapeError({Depth(), {"image", image_.data(), {3, 2, 2}}, Pos()}),
      HasSubstr("'image' has shape [3, 2, 2], expected [2, 2, 3]: [height, width, channels]"));
  EXPECT_THAT(ShapeError({Depth(), {"image", image_.data(), {2, 2, 3}, {6, 3}}, Pos()}),
              HasSubstr("'image' has 2 strides, expected 3"));
  EXPECT_THAT(ShapeError({Depth(), Image(), {"pos", static_cast<const float*>(nullptr), {3}}}),
              HasSubstr("'pos' is a null pointer"));
  EXPECT_THAT(MessageOf(ErrorCode::kShape,
                        [] {
                          Dims({1, 1, 1, 1, 1, 1, 1, 1, 1});
                        }),
              HasSubstr("has 9 dimensions, expected at most 8"));
}

TEST_F(ObsInputTest, NumbersMustBeFinite) {
  pos_[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(MessageOf(ErrorCode::kNumeric,
                        [this] {
                          Copy({Depth(), Image(), Pos()});
                        }),
              HasSubstr("'pos' is nan at element 1"));
}

}  // namespace
}  // namespace dp_bench::control
