// The window on a virtual display: the shown image is read back from OpenGL.
#include "view/window/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "support/error_of.h"
#include "support/virtual_display.h"

namespace dp_bench::view {
namespace {

using ::testing::HasSubstr;

using Colour = std::array<int, 3>;

Colour ColourAt(const RgbImage& image, int x, int y) {
  const auto i = static_cast<std::size_t>(y * image.width + x) * 3;
  return {image.pixels[i], image.pixels[i + 1], image.pixels[i + 2]};
}

// Red, green / blue, white in its quarters.
RgbImage Quarters(int width, int height) {
  RgbImage image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const bool right = x >= width / 2;
      const bool low = y >= height / 2;
      std::uint8_t* const pixel = &image.pixels[static_cast<std::size_t>(y * width + x) * 3];
      pixel[0] = !right || low ? 255 : 0;
      pixel[1] = right ? 255 : 0;
      pixel[2] = low ? 255 : 0;
      if (low && !right) pixel[0] = 0;
    }
  }
  return image;
}

TEST(Window, ShowsTheImageTheRightWayUpAndPixelForPixel) {
  const VirtualDisplay display;
  Window window(320, 200, "test");
  const RgbImage image = Quarters(320, 200);
  window.Show(image);
  const RgbImage capture = window.Capture();
  ASSERT_EQ(capture.width, 320);
  ASSERT_EQ(capture.height, 200);
  EXPECT_EQ(capture.pixels, image.pixels);
}

TEST(Window, ScalesAnImageOfAnotherShapeIntoTheMiddle) {
  const VirtualDisplay display;
  Window window(400, 200, "test");
  window.Show(Quarters(50, 50));
  const RgbImage capture = window.Capture();
  EXPECT_EQ(ColourAt(capture, 50, 100), (Colour{26, 26, 26}));
  EXPECT_EQ(ColourAt(capture, 350, 100), (Colour{26, 26, 26}));
  EXPECT_EQ(ColourAt(capture, 130, 30), (Colour{255, 0, 0}));
  EXPECT_EQ(ColourAt(capture, 270, 30), (Colour{0, 255, 0}));
  EXPECT_EQ(ColourAt(capture, 130, 170), (Colour{0, 0, 255}));
  EXPECT_EQ(ColourAt(capture, 270, 170), (Colour{255, 255, 255}));
}

TEST(Window, OddSizesAreShownWhole) {
  const VirtualDisplay display;
  Window window(97, 61, "test");
  const RgbImage image = Quarters(97, 61);
  window.Show(image);
  EXPECT_EQ(window.Capture().pixels, image.pixels);
}

TEST(Window, OpensAgainAfterItWasClosed) {
  const VirtualDisplay display;
  for (int i = 0; i < 2; ++i) {
    Window window(32, 32, "test");
    EXPECT_EQ(window.WaitForEvents(0.001), "");
    EXPECT_FALSE(window.is_closed());
  }
}

TEST(Window, WithoutADisplaySaysWhatToDoInstead) {
  unsetenv("DISPLAY");
  const std::string message = MessageOf(ErrorCode::kUsage, [] { Window window(32, 32, "test"); });
  EXPECT_THAT(message, HasSubstr("DISPLAY"));
  EXPECT_THAT(message, HasSubstr("dp_bench eval"));
}

TEST(Window, ADisplayThatDoesNotExistIsNamed) {
  setenv("DISPLAY", ":98765", 1);
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [] { Window window(32, 32, "test"); }),
              HasSubstr(":98765"));
  unsetenv("DISPLAY");
}

TEST(Placement, AWideImageHasBarsAboveAndBelow) {
  const Placement place = FitInto(200, 100, 400, 400);
  EXPECT_EQ(place.left, 0);
  EXPECT_EQ(place.top, 100);
  EXPECT_EQ(place.width, 400);
  EXPECT_EQ(place.height, 200);
}

TEST(Placement, ThePointerIsOnTheImageOrOnItsEdge) {
  const Placement place = FitInto(200, 100, 400, 400);
  const Pointer middle = PointerOn(place, 100, 200, true);
  EXPECT_EQ(middle, (Pointer{.x = 0.25, .y = 0.5, .is_down = true}));
  const Pointer above = PointerOn(place, 500, 20, false);
  EXPECT_EQ(above, (Pointer{.x = 1.0, .y = 0.0, .is_down = false}));
}

}  // namespace
}  // namespace dp_bench::view
