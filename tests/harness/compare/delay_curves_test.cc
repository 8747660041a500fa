// Success against the time that a plan takes, from finished runs.
#include "compare/delay_curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "harness/compare/run_folders.h"
#include "report/delay_page.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::compare {
namespace {

using testing::HasSubstr;

class DelayCurvesTest : public testing::Test {
 protected:
  // A run with these outcomes from seed 1 on, at a place of the grid.
  void Add(const std::string& method, int delay, const std::string& outcomes, int execute = 8,
           const std::string& policy = "") {
    const auto folder = scratch_.path() / (policy + method + std::to_string(delay));
    WriteSmallRun(folder, outcomes, 1);
    points_.push_back(
        {.policy = policy, .method = method, .delay = delay, .execute = execute, .folder = folder});
  }

  nlohmann::json Rows() const { return CompareDelays(points_, scratch_.path()); }

  ScratchFolder scratch_;
  std::vector<DelayPoint> points_;
};

TEST_F(DelayCurvesTest, MethodsAreComparedWithNaiveAtTheSamePlace) {
  Add("rtc", 4, "sssssssfff");
  Add("naive", 4, "ssssffffff");
  Add("naive", 0, "ssssssssss");
  const nlohmann::json rows = Rows();
  EXPECT_DOUBLE_EQ(rows[0]["against_naive"]["difference"], 0.3);
  EXPECT_EQ(rows[0]["against_naive"]["n_pairs"], 10);
  EXPECT_DOUBLE_EQ(rows[0]["against_naive"]["p"], 0.25);  // 3 of 3 discordant pairs, two-sided
  EXPECT_TRUE(rows[1]["against_naive"].is_null());
  EXPECT_TRUE(rows[2]["against_naive"].is_null());
}

TEST_F(DelayCurvesTest, ADelayIsComparedWithTheSameMethodWhoseWorldWaits) {
  Add("naive", 0, "ssssssssss");
  Add("naive", 4, "ssssffffff");
  Add("rtc", 4, "ssssffffff");
  const nlohmann::json rows = Rows();
  EXPECT_TRUE(rows[0]["against_waiting"].is_null());
  EXPECT_DOUBLE_EQ(rows[1]["against_waiting"]["difference"], -0.6);
  EXPECT_TRUE(rows[2]["against_waiting"].is_null());  // rtc was not evaluated at delay 0
}

TEST_F(DelayCurvesTest, MethodsThatDifferShareNoLetter) {
  const std::string good(60, 's');
  Add("naive", 4, std::string(60, 'f'));
  Add("rtc", 4, good);
  Add("bid", 4, good);
  const nlohmann::json rows = Rows();
  EXPECT_EQ(rows[1]["letters"], rows[2]["letters"]);
  EXPECT_NE(rows[0]["letters"], rows[1]["letters"]);
}

TEST_F(DelayCurvesTest, TheTableAndThePageShowThePoints) {
  Add("naive", 0, "ssssssssss");
  Add("naive", 4, "ssssffffff");
  Add("rtc", 4, "sssssssfff");
  const nlohmann::json rows = Rows();
  const std::string table = report::DelayTable(rows);
  EXPECT_THAT(table, HasSubstr("70.0 %"));
  EXPECT_THAT(table, HasSubstr("+30.0"));

  const auto file = scratch_.path() / "delays.html";
  report::WriteDelayPage(rows, /*is_quasi_static=*/true, "dp_bench eval", file);
  const std::string page = core::ReadTextFile(file, std::size_t{1} << 20);
  EXPECT_THAT(page, HasSubstr("3 evaluations on the same seeds"));
  EXPECT_THAT(page, HasSubstr("does not move without actions"));
  EXPECT_THAT(page, HasSubstr("A plan every 8 steps"));
  EXPECT_THAT(page, HasSubstr(R"(href="./rtc4/report.html")"));
  EXPECT_THAT(page, HasSubstr("class=\"interval series-1\""));
  // successes do not say their step
  EXPECT_THAT(page, testing::Not(HasSubstr("aria-label=\"Successes per hour\"")));
}

TEST_F(DelayCurvesTest, TwoPointsOfAPlaceHaveLettersToo) {
  Add("naive", 4, Times(60, "s"));
  Add("rtc", 4, Times(60, "f"));
  Add("naive", 8, "ssff");
  Add("rtc", 8, "ssff");
  const nlohmann::json rows = Rows();
  EXPECT_EQ(rows[0]["letters"], "a");
  EXPECT_EQ(rows[1]["letters"], "b");
  EXPECT_EQ(rows[2]["letters"], "a");
  EXPECT_EQ(rows[3]["letters"], "a");
}

TEST_F(DelayCurvesTest, PoliciesAreComparedAtEqualMethodDelayAndExecute) {
  Add("naive", 4, "ssssffffff", 8, "mine");
  Add("rtc", 4, "ssssssffff", 8, "mine");
  Add("naive", 0, "ssssssssss", 8, "yours");
  Add("naive", 4, "ssssssssff", 8, "yours");
  Add("rtc", 4, "sfffffffff", 8, "yours");
  const nlohmann::json rows = Rows();
  EXPECT_TRUE(rows[0]["against_first"].is_null());
  EXPECT_TRUE(rows[1]["against_first"].is_null());
  EXPECT_TRUE(rows[2]["against_first"].is_null()) << "the first policy has no such point";
  EXPECT_DOUBLE_EQ(rows[3]["against_first"]["difference"], 0.4);
  EXPECT_DOUBLE_EQ(rows[4]["against_first"]["difference"], -0.5);
  // the other differences stay within a policy
  EXPECT_DOUBLE_EQ(rows[1]["against_naive"]["difference"], 0.2);
  EXPECT_DOUBLE_EQ(rows[4]["against_naive"]["difference"], -0.7);
  EXPECT_TRUE(rows[0]["against_waiting"].is_null());
  EXPECT_DOUBLE_EQ(rows[3]["against_waiting"]["difference"], -0.2);

  EXPECT_EQ(rows[3].at("policy"), "yours");
  EXPECT_EQ(rows[3].at("against_first").at("n_pairs"), 10);
  EXPECT_THAT(report::DelayTable(rows), HasSubstr("+40.0"));
  const auto file = scratch_.path() / "delays.html";
  report::WriteDelayPage(rows, /*is_quasi_static=*/false, "dp_bench compare", file);
  const std::string page = core::ReadTextFile(file, std::size_t{1} << 20);
  EXPECT_THAT(page, HasSubstr("mine, naive"));
  EXPECT_THAT(page, HasSubstr("yours, rtc"));
  EXPECT_THAT(page, HasSubstr("content=\"dp_bench compare\""));
}

TEST_F(DelayCurvesTest, MorePointsAtAPlaceThanLettersAreAnError) {
  for (int i = 0; i < 27; ++i) Add("naive", 4, "s", 8, "policy" + std::to_string(i));
  EXPECT_THAT(MessageOf(ErrorCode::kData, [this] { Rows(); }),
              HasSubstr("27 evaluations have the same delay and execute, expected at most 26"));
}

TEST_F(DelayCurvesTest, ARunWithoutResultsIsAnError) {
  Add("naive", 0, "ss");
  points_[0].folder = scratch_.path() / "none";
  EXPECT_THAT([this] { Rows(); }, testing::Throws<Error>());
}

TEST(DelayGridFile, IsReadAsItWasWritten) {
  const DelayGridFile grid = ReadDelayGrid(
      R"({"is_quasi_static": true, "points": [{"method": "rtc", "delay": null, "delay_ms": 40.5, "execute": 0,
                      "folder": "rtc_latency_40.5"}]})",
      "grid", "delays.json");
  EXPECT_TRUE(grid.is_quasi_static);
  const std::vector<DelayPoint>& points = grid.points;
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].delay, std::nullopt);
  EXPECT_EQ(points[0].delay_ms, 40.5);
  EXPECT_EQ(points[0].folder, std::filesystem::path("grid/rtc_latency_40.5"));
  EXPECT_FALSE(points[0].waits());
  EXPECT_THAT(MessageOf(ErrorCode::kData,
                        [] { ReadDelayGrid(R"({"points": [{}]})", "grid", "delays.json"); }),
              HasSubstr("delays.json"));
}

}  // namespace
}  // namespace dp_bench::compare
