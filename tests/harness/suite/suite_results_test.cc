// The table of a suite, from folders and from files of other runs of it.
#include "suite/suite_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "harness/compare/run_folders.h"
#include "harness/compare/small_suite.h"
#include "run/run_cost.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::suite {
namespace {

namespace fs = std::filesystem;
using compare::Cell;
using testing::ElementsAre;
using testing::HasSubstr;

// Two policies on one task, with two training seeds.
SuiteFile SmallSuite() {
  return {.name = "small",
          .policies = {{.name = "weak"}, {.name = "strong"}},
          .tasks = {{.name = "reach"}},
          .seeds = {42, 43}};
}

std::vector<SuiteStep> StepsOf(const SuiteFile& suite, const std::filesystem::path& folder) {
  std::vector<SuiteStep> steps;
  for (const SuitePolicy& policy : suite.policies) {
    for (const std::uint64_t seed : suite.seeds) {
      SuiteStep step = {.cell = Cell(policy.name, "reach", "", seed)};
      step.folder = folder / "cells" / policy.name / std::to_string(seed);
      step.product = step.folder / "run";
      steps.push_back(step);
    }
  }
  return steps;
}

class SuiteResultsTest : public testing::Test {
 protected:
  // For --results, or as suite.json.
  fs::path WriteTable(const std::string& name, const std::vector<compare::SuiteCell>& cells) const {
    const compare::SuiteTable table = {
        .name = "other", .policies = {"weak", "strong"}, .tasks = {{"reach", ""}}, .cells = cells};
    std::ofstream(folder_ / name) << ToJson(table);
    return folder_ / name;
  }

  // The table that was written.
  compare::SuiteTable Written() const { return compare::ReadSuiteTable(folder_ / kSuiteFile); }

  const ScratchFolder scratch_;
  const fs::path& folder_ = scratch_.path();
  const SuiteFile suite_ = SmallSuite();
  std::vector<SuiteStep> steps_ = StepsOf(suite_, folder_);
};

TEST_F(SuiteResultsTest, ATableNamesTheCellsThatAreMissing) {
  const auto results =
      WriteTable("b.json", {Cell("weak", "reach", "1100", 42), Cell("weak", "reach", "1100", 43),
                            Cell("strong", "reach", "1111", 43)});
  SuiteResults found(suite_, steps_, folder_, {results});
  const compare::MissingCell missing = {"strong", "reach", 42};
  EXPECT_THAT(found.Table().missing, ElementsAre(missing));
  found.Write({});
  EXPECT_THAT(Written().missing, ElementsAre(missing));
  const std::string page = core::ReadTextFile(folder_ / "suite.md", 1 << 20);
  EXPECT_NE(page.find("3 evaluations, 1 missing"), std::string::npos) << page;
  EXPECT_NE(page.find("| strong | 100.0\\* |"), std::string::npos) << page;
}

TEST_F(SuiteResultsTest, ATableOfSeveralEnvVersionsSaysSoAndHasNoLetters) {
  std::vector<compare::SuiteCell> cells;
  for (const SuiteStep& step : steps_) {
    cells.push_back(*step.cell);
    cells.back().successes = cells.back().policy == "weak" ? "0000000000" : "1111111111";
    cells.back().env_version = "1";
  }
  const auto with_letters = [&](const fs::path& output) {
    const auto brought = WriteTable("b.json", cells);
    fs::create_directories(output);
    SuiteResults results(suite_, steps_, output, {brought});
    results.Write({});
    const std::string page = core::ReadTextFile(output / "suite.md", 1 << 20);
    EXPECT_EQ(page.find("FAILED: reach: expected cells of one version") != std::string::npos,
              !results.Extras({}).failed.empty());
    return page.find("| letters |") != std::string::npos;
  };
  EXPECT_TRUE(with_letters(folder_ / "same"));
  cells.back().env_version = "2";
  EXPECT_FALSE(with_letters(folder_ / "mixed"));
}

TEST_F(SuiteResultsTest, TheEnvVersionOfACellIsThatOfItsRun) {
  for (SuiteStep& step : steps_) step.kind = StepKind::kEvaluate;
  fs::create_directories(steps_[0].product);
  compare::WriteSmallRun(steps_[0].product, "ssff");
  const SuiteResults results(suite_, steps_, folder_, {});
  ASSERT_EQ(results.Table().cells.size(), 1U);
  EXPECT_EQ(results.Table().cells[0].env_version, "1.2.0");
}

// On the page only: what --dry-run predicts from is what a further cell will take.
TEST_F(SuiteResultsTest, ATrainingForAllTasksIsPartOfTheCpuTimeOfItsCells) {
  steps_.push_back({.kind = StepKind::kTrain, .product = folder_ / "training"});
  for (const std::size_t cell : {0, 1}) steps_[cell].needs = {steps_.size() - 1};
  const auto add_cost = [](const fs::path& run, double cpu_s) {
    fs::create_directories(run);
    run::AddCost(run, {.cpu_s = cpu_s});
  };
  add_cost(folder_ / "training", 100.0);
  for (const std::size_t cell : {0, 2}) {
    steps_[cell].kind = StepKind::kEvaluate;
    add_cost(steps_[cell].product, 3.0);
    compare::WriteSmallRun(steps_[cell].product, "ssff");
  }
  SuiteResults results(suite_, steps_, folder_, {});
  const auto costs = results.Extras({}).costs;
  EXPECT_EQ(costs.at(steps_[0].cell->folder).cpu_s, 3.0);
  EXPECT_EQ(costs.at(steps_[2].cell->folder).cpu_s, 3.0);
  results.Write({});
  const std::string page = core::ReadTextFile(folder_ / "suite.html", 1 << 20);
  EXPECT_THAT(page, HasSubstr("<td class=\"number\">0:00:53</td>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"number\">0:00:03</td>"));
}

TEST_F(SuiteResultsTest, ATableKeepsTheCellsThatAnotherProcessBrought) {
  SuiteResults first(suite_, steps_, folder_, {});
  const auto brought = WriteTable("b.json", {Cell("strong", "reach", "1111", 42)});
  SuiteResults second(suite_, steps_, folder_, {brought});
  second.Write({});
  first.Write({});
  EXPECT_THAT(Written().cells, ElementsAre(Cell("strong", "reach", "1111", 42)));
  EXPECT_THAT(first.known(), ElementsAre(false, false, true, false));
}

TEST_F(SuiteResultsTest, ATableKeepsTheCellsOfALongerFileOfTheSuite) {
  SuiteFile shorter = suite_;
  shorter.policies.pop_back();
  const std::vector<SuiteStep> fewer_steps = StepsOf(shorter, folder_);
  SuiteResults first(shorter, fewer_steps, folder_, {});
  const auto brought = WriteTable("b.json", {Cell("strong", "reach", "1111", 42)});
  SuiteResults second(suite_, steps_, folder_, {brought});
  second.Write({});
  first.Write({});
  first.Write({});
  EXPECT_THAT(Written().other_cells, ElementsAre(Cell("strong", "reach", "1111", 42)));
  second.Write({});
  EXPECT_EQ(Written().cells.size(), 1U);
}

TEST_F(SuiteResultsTest, ATableIsNotWrittenOverThatOfAnotherSuite) {
  SuiteResults results(suite_, steps_, folder_, {});
  WriteTable(kSuiteFile, {Cell("strong", "reach", "1111", 42)});
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { results.Write({}); }),
              HasSubstr("is the folder of the suite 'other', not of 'small'"));
}

}  // namespace
}  // namespace dp_bench::suite
