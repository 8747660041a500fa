// Images in another size, beside openpi's.
#include "media/resize.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/hex.h"
#include "support/json_golden.h"

namespace dp_bench::media {
namespace {

struct Pixels {
  int height = 0;
  int width = 0;
  std::vector<std::byte> bytes;
};

Pixels Read(const nlohmann::json& json) {
  Pixels pixels = {.height = json.at("size").at(0).get<int>(),
                   .width = json.at("size").at(1).get<int>()};
  for (const char byte : FromHex(json.at("pixels").get<std::string>())) {
    pixels.bytes.push_back(static_cast<std::byte>(byte));
  }
  return pixels;
}

TEST(ResizeWithPad, GivesTheBitsOfOpenpi) {
  const nlohmann::json& golden = JsonGolden("resize_with_pad");
  for (const char* const name : {"smaller", "much_smaller", "larger", "wide"}) {
    const Pixels from = Read(golden.at(name).at("from"));
    const Pixels wanted = Read(golden.at(name).at("to"));
    std::vector<std::byte> found(wanted.bytes.size());
    ResizeWithPad({.data = from.bytes.data(),
                   .height = from.height,
                   .width = from.width,
                   .strides = {3 * from.width, 3, 1}},
                  found, wanted.height, wanted.width);
    EXPECT_EQ(wanted.bytes, found) << name;
  }
}

TEST(ResizeWithPad, TheSameSizeAndAnotherLayoutChangeNoPixel) {
  const Pixels from = Read(JsonGolden("resize_with_pad").at("smaller").at("from"));
  const auto n_pixels = static_cast<std::size_t>(from.height * from.width);
  std::vector<std::byte> planes(from.bytes.size());
  for (std::size_t i = 0; i < planes.size(); ++i) planes[i % 3 * n_pixels + i / 3] = from.bytes[i];
  std::vector<std::byte> found(planes.size());
  ResizeWithPad({.data = planes.data(),
                 .height = from.height,
                 .width = from.width,
                 .strides = {from.width, 1, from.height * from.width}},
                found, from.height, from.width);
  EXPECT_EQ(found, from.bytes);
}

}  // namespace
}  // namespace dp_bench::media
