#include "report/comparison_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "compare/run_comparison.h"
#include "core/atomic_file.h"
#include "harness/compare/run_folders.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::report {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ComparisonReport : public testing::Test {
 protected:
  void Add(const std::string& name, const std::string& outcomes) {
    folders_.push_back(scratch_.path() / name);
    compare::WriteSmallRun(folders_.back(), outcomes, 1);
  }
  void Video(const fs::path& video) {
    fs::create_directories((scratch_.path() / video).parent_path());
    std::ofstream(scratch_.path() / video) << "video";
  }
  std::string Page(const compare::CompareOptions& options = {}, const fs::path& file = "out.html") {
    report::WriteComparisonReport(compare::CompareRuns(compare::ReadRuns(folders_), options),
                                  scratch_.path() / file);
    return core::ReadTextFile(scratch_.path() / file, 1 << 20);
  }

  ScratchFolder scratch_;
  std::vector<fs::path> folders_;
};

TEST_F(ComparisonReport, ShowsTheDifferenceAndEveryDiscordantSeed) {
  Add("a", "ssssffffff");
  Add("b", "fsssssssff");
  const std::string page = Page();
  EXPECT_THAT(page, AllOf(HasSubstr("B against A on pusht, push"), HasSubstr("+30.0<small> points"),
                          HasSubstr("<b>-11.8 to +60.1</b>"), HasSubstr("McNemar p = 0.375"),
                          HasSubstr("seed 1</b><span class=\"tag success\">only A"),
                          HasSubstr("seed 5</b><span class=\"tag success\">only B"),
                          HasSubstr("5 points takes about"), HasSubstr("class=\"up\"")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("letters")), Not(HasSubstr("Holm"))));
}

TEST_F(ComparisonReport, ShowsTheRateWithoutEpisodesInWhichThePolicyGaveNoActions) {
  Add("a", "ssssffffff");
  Add("b", "xsssssssff");
  EXPECT_THAT(Page(), Not(HasSubstr("policy fault")));
  const fs::path rows = folders_[1] / "episodes.jsonl";
  std::string text = core::ReadTextFile(rows, 1 << 20);
  const std::string reason = "the env threw";
  text.replace(text.find(reason), reason.size(), "policy_timeout: 5 s");
  std::ofstream(rows) << text;
  EXPECT_THAT(Page(), HasSubstr("77.8\u00a0% without 1 policy fault"));
}

TEST_F(ComparisonReport, NeedsNoNetworkAndNoScriptAndFitsAPhone) {
  Add("a", "sf");
  Add("b", "fs");
  const std::string page = Page();
  EXPECT_THAT(page,
              AllOf(Not(HasSubstr("http")), Not(HasSubstr("<script")),
                    HasSubstr("width=device-width"), HasSubstr("prefers-color-scheme: dark")));
}

TEST_F(ComparisonReport, LinksBothVideosOnlyWhereTheyAre) {
  Add("a", "sf");
  Add("b run", "fs");
  Video("a/media/test_1.mp4");
  Video("b run/media/test_1.mp4");
  Video("a/media/test_2.mp4");
  const std::string page = Page();
  EXPECT_THAT(page, AllOf(HasSubstr("src=\"./a/media/test_1.mp4\""),
                          HasSubstr("src=\"./b%20run/media/test_1.mp4\""),
                          HasSubstr("src=\"./a/media/test_2.mp4\""), HasSubstr("no video"),
                          Not(HasSubstr("b%20run/media/test_2.mp4"))));
  fs::create_directory(scratch_.path() / "pages");
  EXPECT_THAT(Page({}, "pages/out.html"), HasSubstr("src=\"./../a/media/test_1.mp4\""));
}

TEST_F(ComparisonReport, DoesNotLinkAVideoOutsideOfTheRun) {
  Add("a", "s");
  Add("b", "f");
  Video("secret.mp4");
  std::string row = core::ReadTextFile(folders_[0] / "episodes.jsonl", 1 << 20);
  row.replace(row.find("media/test_1.mp4"), 16, "../secret.mp4");
  std::ofstream(folders_[0] / "episodes.jsonl") << row;
  EXPECT_THAT(Page(), Not(HasSubstr("secret")));
}

TEST_F(ComparisonReport, EscapesWhatComesFromFiles) {
  Add("a", "sf");
  Add("b", "fs");
  nlohmann::json config = compare::SmallConfig();
  config["policy"]["plugin"] = "<img onerror=x>";
  for (const fs::path& folder : folders_) std::ofstream(folder / "config.json") << config;
  EXPECT_THAT(Page(), AllOf(HasSubstr("&lt;img onerror"), Not(HasSubstr("<img"))));
}

TEST_F(ComparisonReport, ShowsLettersAndSaysWhichOfThreeIsTheBest) {
  Add("a", std::string(20, 'f'));
  Add("b", std::string(20, 's'));
  Add("c", std::string(10, 's') + std::string(10, 'f'));
  const std::string page = Page({.rate_method = compare::RateMethod::kClopperPearson});
  EXPECT_THAT(page, AllOf(HasSubstr("<th>letters</th>"), HasSubstr("<b>c</b>"),
                          HasSubstr("(Clopper-Pearson)"), HasSubstr("B, the best of 3 runs"),
                          HasSubstr("83.2 to 100.0\u00a0%"), HasSubstr("with Holm")));
}

TEST_F(ComparisonReport, SaysWhereItCannotBeWritten) {
  Add("a", "sf");
  Add("b", "fs");
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [this] { Page({}, "nowhere/out.html"); }),
              HasSubstr("nowhere"));
}

}  // namespace
}  // namespace dp_bench::report
