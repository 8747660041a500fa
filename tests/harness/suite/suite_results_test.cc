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

// A file for --results.
std::filesystem::path WriteTable(const std::filesystem::path& file,
                                 const std::vector<compare::SuiteCell>& cells) {
  const compare::SuiteTable table = {
      .name = "other", .policies = {"weak", "strong"}, .tasks = {{"reach", ""}}, .cells = cells};
  std::ofstream(file) << ToJson(table);
  return file;
}

TEST(SuiteResultsTest, ATableNamesTheCellsThatAreMissing) {
  const ScratchFolder scratch;
  const SuiteFile suite = SmallSuite();
  const std::vector<SuiteStep> steps = StepsOf(suite, scratch.path());
  const auto results = WriteTable(scratch.path() / "b.json", {Cell("weak", "reach", "1100", 42),
                                                              Cell("weak", "reach", "1100", 43),
                                                              Cell("strong", "reach", "1111", 43)});
  SuiteResults found(suite, steps, scratch.path(), {results});
  const compare::MissingCell missing = {"strong", "reach", 42};
  EXPECT_THAT(found.Table().missing, ElementsAre(missing));
  found.Write({});
  EXPECT_THAT(compare::ReadSuiteTable(scratch.path() / kSuiteFile).missing, ElementsAre(missing));
  const std::string page = core::ReadTextFile(scratch.path() / "suite.md", 1 << 20);
  EXPECT_NE(page.find("3 evaluations, 1 missing"), std::string::npos) << page;
  EXPECT_NE(page.find("| strong | 100.0\\* |"), std::string::npos) << page;
}

TEST(SuiteResultsTest, ATableOfSeveralEnvVersionsSaysSoAndHasNoLetters) {
  const ScratchFolder scratch;
  const SuiteFile suite = SmallSuite();
  const std::vector<SuiteStep> steps = StepsOf(suite, scratch.path());
  std::vector<compare::SuiteCell> cells;
  for (const SuiteStep& step : steps) {
    cells.push_back(*step.cell);
    cells.back().successes = cells.back().policy == "weak" ? "0000000000" : "1111111111";
    cells.back().env_version = "1";
  }
  const auto with_letters = [&](const std::filesystem::path& output) {
    const auto brought = WriteTable(scratch.path() / "b.json", cells);
    std::filesystem::create_directories(output);
    SuiteResults results(suite, steps, output, {brought});
    results.Write({});
    const std::string page = core::ReadTextFile(output / "suite.md", 1 << 20);
    EXPECT_EQ(page.find("FAILED: reach: expected cells of one version") != std::string::npos,
              !results.Extras({}).failed.empty());
    return page.find("| letters |") != std::string::npos;
  };
  EXPECT_TRUE(with_letters(scratch.path() / "same"));
  cells.back().env_version = "2";
  EXPECT_FALSE(with_letters(scratch.path() / "mixed"));
}

TEST(SuiteResultsTest, TheEnvVersionOfACellIsThatOfItsRun) {
  const ScratchFolder scratch;
  const SuiteFile suite = SmallSuite();
  std::vector<SuiteStep> steps = StepsOf(suite, scratch.path());
  for (SuiteStep& step : steps) step.kind = StepKind::kEvaluate;
  std::filesystem::create_directories(steps[0].product);
  compare::WriteSmallRun(steps[0].product, "ssff");
  const SuiteResults results(suite, steps, scratch.path(), {});
  ASSERT_EQ(results.Table().cells.size(), 1U);
  EXPECT_EQ(results.Table().cells[0].env_version, "1.2.0");
}

TEST(SuiteResultsTest, ATrainingForAllTasksIsPartOfTheCostOfItsCells) {
  const ScratchFolder scratch;
  const SuiteFile suite = SmallSuite();
  std::vector<SuiteStep> steps = StepsOf(suite, scratch.path());
  steps.push_back({.kind = StepKind::kTrain, .product = scratch.path() / "training"});
  for (const std::size_t cell : {0, 1}) steps[cell].needs = {steps.size() - 1};
  const auto add_cost = [](const std::filesystem::path& run, double cpu_s) {
    std::filesystem::create_directories(run);
    run::AddCost(run, {.cpu_s = cpu_s});
  };
  add_cost(scratch.path() / "training", 100.0);
  for (const std::size_t cell : {0, 2}) {
    steps[cell].kind = StepKind::kEvaluate;
    add_cost(steps[cell].product, 3.0);
    compare::WriteSmallRun(steps[cell].product, "ssff");
  }
  const auto costs = SuiteResults(suite, steps, scratch.path(), {}).Extras({}).costs;
  EXPECT_EQ(costs.at(steps[0].cell->folder).cpu_s, 53.0);
  EXPECT_EQ(costs.at(steps[2].cell->folder).cpu_s, 3.0);
}

TEST(SuiteResultsTest, ATableKeepsTheCellsThatAnotherProcessBrought) {
  const ScratchFolder scratch;
  const SuiteFile suite = SmallSuite();
  const std::vector<SuiteStep> steps = StepsOf(suite, scratch.path());
  SuiteResults first(suite, steps, scratch.path(), {});
  const auto brought = WriteTable(scratch.path() / "b.json", {Cell("strong", "reach", "1111", 42)});
  SuiteResults second(suite, steps, scratch.path(), {brought});
  second.Write({});
  first.Write({});
  EXPECT_THAT(compare::ReadSuiteTable(scratch.path() / kSuiteFile).cells,
              ElementsAre(Cell("strong", "reach", "1111", 42)));
  EXPECT_THAT(first.known(), ElementsAre(false, false, true, false));
}

TEST(SuiteResultsTest, ATableKeepsTheCellsOfALongerFileOfTheSuite) {
  const ScratchFolder scratch;
  SuiteFile suite = SmallSuite();
  const SuiteFile longer = suite;
  suite.policies.pop_back();
  const std::vector<SuiteStep> steps = StepsOf(suite, scratch.path());
  const std::vector<SuiteStep> more_steps = StepsOf(longer, scratch.path());
  SuiteResults first(suite, steps, scratch.path(), {});
  const auto brought = WriteTable(scratch.path() / "b.json", {Cell("strong", "reach", "1111", 42)});
  SuiteResults second(longer, more_steps, scratch.path(), {brought});
  second.Write({});
  first.Write({});
  first.Write({});
  EXPECT_THAT(compare::ReadSuiteTable(scratch.path() / kSuiteFile).other_cells,
              ElementsAre(Cell("strong", "reach", "1111", 42)));
  second.Write({});
  EXPECT_EQ(compare::ReadSuiteTable(scratch.path() / kSuiteFile).cells.size(), 1U);
}

TEST(SuiteResultsTest, ATableIsNotWrittenOverThatOfAnotherSuite) {
  const ScratchFolder scratch;
  const SuiteFile suite = SmallSuite();
  const std::vector<SuiteStep> steps = StepsOf(suite, scratch.path());
  SuiteResults results(suite, steps, scratch.path(), {});
  WriteTable(scratch.path() / kSuiteFile, {Cell("strong", "reach", "1111", 42)});
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { results.Write({}); }),
              HasSubstr("is the folder of the suite 'other', not of 'small'"));
}

}  // namespace
}  // namespace dp_bench::suite
