// The results of several training seeds, from their folders.
#include "compare/multi_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/atomic_file.h"
#include "harness/compare/run_folders.h"
#include "report/html_report.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::compare {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class MultiRunTest : public testing::Test {
 protected:
  // The run of a seed whose first `n_success` of `n` episodes succeeded.
  void AddRun(std::uint64_t seed, int n_success, int n) const {
    const fs::path folder = dir_ / SeedFolder(seed);
    WriteSmallRun(folder, Times(n_success, "s") + Times(n - n_success, "f"));
    std::ofstream(folder / "logs.json.txt")
        << R"({"train_loss": 0.5, "epoch": 0, "global_step": 0, "test/success_rate": 0.25})"
        << "\n"
        << R"({"train_loss": 0.1, "epoch": 1, "global_step": 9, "test/success_rate": 0.75})"
        << "\n";
  }

  std::string Page(const MultiRun& multi_run) const {
    report::WriteMultiRunReport(multi_run);
    return core::ReadTextFile(dir_ / "report.html", std::size_t{1} << 20);
  }

  ScratchFolder scratch_;
  const fs::path& dir_ = scratch_.path();
};

TEST_F(MultiRunTest, TheIntervalIsThatOfTheSeedsNotOfAllEpisodes) {
  AddRun(42, 6, 10);
  AddRun(43, 7, 10);
  AddRun(44, 8, 10);
  const MultiRun multi_run = ReadMultiRun(dir_, {42, 43, 44});
  EXPECT_NEAR(multi_run.success_rate.mean, 0.7, 1e-12);
  EXPECT_NEAR(multi_run.success_rate.std_dev, 0.1, 1e-12);
  EXPECT_NEAR(multi_run.success_rate.low, 0.451586228823, 1e-9);
  EXPECT_NEAR(multi_run.mean_score.mean, 0.85, 1e-12);
  EXPECT_THAT(report::MultiRunTable(multi_run),
              HasSubstr("95 % interval of the mean over 3 seeds (Student): 45.2 to 94.8 %"));
}

TEST_F(MultiRunTest, ARateStaysARate) {
  AddRun(1, 9, 10);
  AddRun(2, 4, 10);
  const MultiRun multi_run = ReadMultiRun(dir_, {1, 2});
  EXPECT_EQ(multi_run.success_rate.low, 0.0);
  EXPECT_EQ(multi_run.success_rate.high, 1.0);
}

TEST_F(MultiRunTest, EqualRatesOfTwoSeedsDoNotMakeTheIntervalAPoint) {
  AddRun(1, 0, 50);
  AddRun(2, 0, 50);
  const MultiRun multi_run = ReadMultiRun(dir_, {1, 2});
  // 12.7062 sqrt(p (1 - p) / 50) / sqrt(2) with p = 2 / 104
  EXPECT_EQ(multi_run.success_rate.low, 0.0);
  EXPECT_NEAR(multi_run.success_rate.high, 0.174501, 1e-6);
  EXPECT_EQ(multi_run.success_rate.std_dev, 0.0);
  EXPECT_THAT(report::MultiRunTable(multi_run), HasSubstr("0.0 to 17.5 %"));
  EXPECT_FALSE(ToJson(multi_run)["test/mean_score"].contains("low"));
}

TEST_F(MultiRunTest, OneSeedHasNoInterval) {
  AddRun(7, 5, 10);
  const MultiRun multi_run = ReadMultiRun(dir_, {7});
  EXPECT_THAT(report::MultiRunTable(multi_run), HasSubstr("no spread with one seed"));
  EXPECT_FALSE(ToJson(multi_run)["test/success_rate"].contains("low"));
  EXPECT_THAT(Page(multi_run), HasSubstr("no spread with one seed"));
}

TEST_F(MultiRunTest, JsonHasEverySeedAndTheSpread) {
  AddRun(42, 6, 10);
  AddRun(43, 8, 10);
  const nlohmann::json json = ToJson(ReadMultiRun(dir_, {42, 43}));
  EXPECT_EQ(json["seeds"], nlohmann::json({42, 43}));
  EXPECT_EQ(json["runs"][1]["n_success"], 8);
  EXPECT_EQ(json["runs"][1]["folder"], "seed_43");
  EXPECT_NEAR(json["test/success_rate"]["mean"].get<double>(), 0.7, 1e-12);
  EXPECT_TRUE(json["test/success_rate"].contains("high"));
}

TEST_F(MultiRunTest, ThePageLinksEverySeedAndDrawsItsCurve) {
  AddRun(42, 6, 10);
  AddRun(43, 8, 10);
  const std::string page = Page(ReadMultiRun(dir_, {42, 43}));
  EXPECT_THAT(page, HasSubstr("unet_hybrid on pusht, push"));
  EXPECT_THAT(page, HasSubstr("2 training seeds"));
  EXPECT_THAT(page, HasSubstr("./seed_42/report.html"));
  EXPECT_THAT(page, HasSubstr("./seed_43/report.html"));
  EXPECT_THAT(page, HasSubstr("Success rate"));
  EXPECT_THAT(page, HasSubstr("series-1"));
  EXPECT_THAT(page, Not(HasSubstr("http")));
}

TEST_F(MultiRunTest, ASeedWithoutEpisodesIsAnErrorThatNamesIt) {
  AddRun(42, 6, 10);
  AddRun(43, 0, 0);
  EXPECT_THAT(MessageOf(ErrorCode::kData,
                        [this] {
                          ReadMultiRun(dir_, {42, 43});
                        }),
              HasSubstr("seed_43' has no test episodes"));
}

}  // namespace
}  // namespace dp_bench::compare
