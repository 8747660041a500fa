// What the section shape_meta of a config may say.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "dp_bench/config.h"
#include "dp_bench/spec.h"
#include "support/error_of.h"

namespace dp_bench {
namespace {

TEST(ShapeMeta, AKeyWithoutASizeIsRefused) {
  for (const char* shape : {"[]", "[0]", "[2, -1]", "[-2, -3]"}) {
    const std::string text = fmt::format(
        R"({{"obs": {{"height": {{"shape": {}}}}}, "action": {{"shape": [2]}}}})", shape);
    EXPECT_THAT(MessageOf(ErrorCode::kConfig,
                          [&] { ShapeMeta::FromConfig(Config::FromJson(text, "my.json")); }),
                testing::HasSubstr("a low_dim key needs at least one positive size"))
        << shape;
  }
}

}  // namespace
}  // namespace dp_bench
