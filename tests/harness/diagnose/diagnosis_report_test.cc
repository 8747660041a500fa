// The report of a diagnosis, as Markdown and as a page.
#include "diagnose/diagnosis_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/atomic_file.h"
#include "harness/diagnose/log_course.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::diagnose {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Finding Checked(const char* id, bool is_fault, Severity severity = Severity::kProblem) {
  return Decide({.id = id,
                 .claim = "it | <is> wrong",
                 .advice = "repair it",
                 .config_key = "a.b",
                 .severity = severity},
                is_fault, "5 of 9");
}

Diagnosis Example(bool has_problem) {
  Diagnosis diagnosis;
  diagnosis.findings = {Checked("A.input_range", false), Checked("B.timesteps", has_problem),
                        Checked("E.loss_plateau", true, Severity::kNote),
                        LeaveOpen({.id = "F.constants", .claim = "wrong constants"}, "no tables"),
                        Checked("sampling.no_better_than_mean", false)};
  diagnosis.tables = {{.hypothesis = "A", .head = {"", "probed"}, .rows = {{"x_0 std", "0.5"}}}};
  diagnosis.plots = {{.title = "Loss by timestep",
                      .series = {{"error", {{5.0, 0.25}, {15.0, 0.5}}}},
                      .x_label = "timestep"}};
  diagnosis.notes = {"The loss went from 2 to 1 (50.00 % less)."};
  diagnosis.loss = StatisticsOf(LossLog(400, [](int step) { return 1.0 - step / 500.0; }));
  return diagnosis;
}

std::string PageOf(const Diagnosis& diagnosis) {
  const ScratchFolder scratch;
  WriteDiagnosisPage(diagnosis, "unet on <pusht>", scratch.path() / "page.html");
  return core::ReadTextFile(scratch.path() / "page.html", 1U << 24);
}

TEST(Hypotheses, HaveAClaimAndAPlaceInTheReport) {
  std::vector<std::string> prefixes = {"process"};  // stands for all of B to F
  for (const nlohmann::json& group : HypothesisTexts()["groups"]) {
    prefixes.push_back(group["prefix"]);
  }
  for (const nlohmann::json& row : HypothesisTexts()["hypotheses"]) {
    const auto id = row["id"].get<std::string>();
    EXPECT_FALSE(Hypothesis(id).claim.empty()) << id;
    EXPECT_THAT(prefixes, testing::Contains(id.substr(0, id.find('.')))) << id;
  }
}

TEST(DiagnosisReport, HasTheSectionsOfAReportInOrder) {
  const std::string text = ToMarkdown(Example(false), "unet on pusht");
  std::size_t at = 0;
  for (const char* section :
       {"# Diagnosis: unet on pusht", "## Summary", "## Hypotheses", "Hypothesis A", "Hypothesis B",
        "Hypothesis C", "Hypothesis D", "Hypothesis E", "Hypothesis F", "## Other checks",
        "## Curves", "## Key findings", "## Points to watch", "## Advice", "## Conclusion"}) {
    const std::size_t found = text.find(section, at);
    ASSERT_NE(found, std::string::npos) << section << " is missing or too early in\n" << text;
    at = found;
  }
}

TEST(DiagnosisReport, NamesProblemsWithTheirAdvice) {
  const std::string text = ToMarkdown(Example(true), "x");
  EXPECT_THAT(text, HasSubstr("5 checks found 1 problem: B.timesteps."));
  EXPECT_THAT(text, HasSubstr("### Hypothesis B: the timesteps are not uniform: CONFIRMED"));
  EXPECT_THAT(text, HasSubstr("- B.timesteps: repair it \\[a.b\\]."));
  EXPECT_THAT(text, HasSubstr("Repair the problems above"));
}

TEST(DiagnosisReport, SaysThatAHealthyTrainingIsHealthy) {
  const std::string text = ToMarkdown(Example(false), "x");
  EXPECT_THAT(text, HasSubstr("5 checks found no problem. The loss fell by "));
  EXPECT_THAT(text, HasSubstr("### Hypothesis A: the input data are out of range: REJECTED"));
  EXPECT_THAT(text, HasSubstr("### Hypothesis E: the loss is unstable: NOTE"));
  EXPECT_THAT(text, HasSubstr("wrong: INCONCLUSIVE"));
  EXPECT_THAT(text, HasSubstr("2 of the six hypotheses are rejected."));
  EXPECT_THAT(text, HasSubstr("Go on with the training"));
}

TEST(DiagnosisReport, CallsAHypothesisRejectedOnlyIfMostOfItsChecksAre) {
  Diagnosis diagnosis;
  const auto open = [](const std::string& id) {
    return LeaveOpen({.id = id, .claim = "wrong"}, "2 steps");
  };
  diagnosis.findings = {Checked("D.prediction", false), Checked("D.predicted_x0", false),
                        open("D.predicted_x0_course"),  Checked("E.loss_not_finite", false),
                        open("E.loss_does_not_fall"),   open("E.loss_plateau")};
  const std::string text = ToMarkdown(diagnosis, "x");
  EXPECT_THAT(text, HasSubstr("predictions are wrong: REJECTED"));
  EXPECT_THAT(text, HasSubstr("range of their targets. 1 of 3 checks are open."));
  EXPECT_THAT(text, HasSubstr("the loss is unstable: INCONCLUSIVE"));
  EXPECT_THAT(text, HasSubstr("2 of 3 checks are open."));
  EXPECT_THAT(text, Not(HasSubstr("The loss is stable and falls.")));
  EXPECT_THAT(text, HasSubstr("Nothing could be checked."));
}

TEST(DiagnosisReport, HasTablesOfEvidenceAndCurves) {
  const std::string text = ToMarkdown(Example(false), "x");
  EXPECT_THAT(text, HasSubstr("|  | probed |\n|---|---|\n| x\\_0 std | 0.5 |\n"));
  EXPECT_THAT(text, HasSubstr("| timestep | 5 | 15 |\n|---|---|---|\n| error | 0.25 | 0.5 |\n"));
  EXPECT_THAT(text, HasSubstr("- The loss went from 2 to 1"));
}

TEST(DiagnosisReport, KeepsTextInsideItsCell) {
  EXPECT_THAT(ToMarkdown(Example(false), "x"), HasSubstr("it \\| &lt;is&gt; wrong"));
  EXPECT_THAT(PageOf(Example(false)),
              AllOf(HasSubstr("it | &lt;is&gt; wrong"), HasSubstr("unet on &lt;pusht&gt;"),
                    Not(HasSubstr("<is>"))));
}

TEST(DiagnosisReport, IsAPageWithPlots) {
  const std::string page = PageOf(Example(true));
  for (const char* part : {"Summary", "Hypothesis F", "Plots", "Other checks", "Key findings",
                           "Points to watch", "Advice", "Conclusion", "Loss by timestep"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, HasSubstr("<polyline class=\"series-0\""));
  EXPECT_THAT(page, HasSubstr("<td>x_0 std</td><td>0.5</td>"));
  EXPECT_THAT(page, HasSubstr("<span class=\"tag problem\">CONFIRMED</span>"));
}

TEST(DiagnosisReport, NamesAFileThatItCannotWrite) {
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [] { WriteDiagnosisPage({}, "x", "/nowhere/page.html"); }),
              HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace dp_bench::diagnose
