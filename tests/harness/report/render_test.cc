#include "report/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dp_bench::report {
namespace {

TEST(LinkTo, EncodesWhatAUrlWouldTakeForSomethingElse) {
  EXPECT_EQ(LinkTo("media/test_1.mp4"), "./media/test_1.mp4");
  EXPECT_EQ(LinkTo("../my run/a#b?c.mp4"), "./../my%20run/a%23b%3Fc.mp4");
  EXPECT_EQ(LinkTo("javascript:x"), "./javascript%3Ax");
  EXPECT_EQ(LinkTo("epoch=0100/\"é"), "./epoch=0100/%22%C3%A9");
}

TEST(DataUrl, HasItsBytesInBase64) {
  EXPECT_EQ(DataUrl("video/mp4", "video bytes"), "data:video/mp4;base64,dmlkZW8gYnl0ZXM=");
}

TEST(Render, AlignsColumnsAndEscapesNothingInAText) {
  const nlohmann::json section = {
      {"name", "a<b>"},
      {"meaning", "m"},
      {"keys",
       {{{"key", "k | 1"}, {"type", "t"}, {"default", "d"}, {"meaning", ""}},
        {{"key", "\x1b"}, {"type", "é"}, {"default", "d"}, {"meaning", "x"}}}}};
  EXPECT_EQ(Render("keys.txt", section),
            "a<b>: m\n"
            "  k | 1  t  d\n"
            "  \\x1b   é  d  x\n");
}

TEST(Render, FormatsNumbersAndLeavesOutWhatIsNotThere) {
  nlohmann::json result = {{"splits",
                            {{{"split", "test"},
                              {"rate", 0.25},
                              {"low", 0.0},
                              {"high", 1.0},
                              {"n_success", 1},
                              {"n", 4},
                              {"mean_score", 0.5},
                              {"n_failed", 0},
                              {"n_stale_steps", nullptr}}}},
                           {"failed", nlohmann::json::array()}};
  EXPECT_THAT(Render("result.txt", result),
              testing::EndsWith("25.0 %  0.0 to 100.0 %       1/4       0.500       0\n"));
  result["splits"][0]["n_stale_steps"] = 3;
  result["splits"][0]["n_steps"] = 9;
  EXPECT_THAT(
      Render("result.txt", result),
      testing::EndsWith("test: 3 of 9 steps were executed while the policy was planning\n"));
}

}  // namespace
}  // namespace dp_bench::report
