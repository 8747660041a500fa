// The table of a suite and its files: what is done so far.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compare/budget_rounds.h"
#include "compare/suite_table.h"
#include "report/suite_page.h"
#include "suite/suite_run.h"
#include "suite/suite_steps.h"

namespace dp_bench::suite {

inline constexpr const char* kSuiteFile = "suite.json";

/// Outcomes of the cells, from their run folders and from tables of earlier or other runs of the
/// suite, which are found by the hashes of the configs. So a table stays when run folders are
/// removed, and tables of several machines add up.
class SuiteResults {
 public:
  /// `others`: files like suite.json; that of `folder` is read too, if it exists. All must outlive
  /// this object. Throws Error{kData} for a file that is no such table.
  SuiteResults(const SuiteFile& suite, std::span<const SuiteStep> steps,
               const std::filesystem::path& folder,
               const std::vector<std::filesystem::path>& others);

  /// Whether the outcomes of each step are known, of all test seeds that it needs now.
  std::vector<bool> known() const;

  /// What the budget gives next, from the outcomes so far. SuiteStep::n_test of each cell is to be
  /// set to its test seeds, in the order of the steps, before the round is run. The files that
  /// Write writes say that there is a budget.
  const compare::BudgetRound& NextRound(int n_budget);

  /// Takes what a step has done. A result that cannot be read is shown as failed.
  void Take(std::size_t step);

  /// Takes also what other processes have done meanwhile.
  void TakeAll();

  /// In the order of policies, tasks and seeds, whatever the order in which they were done.
  compare::SuiteTable Table() const;

  report::SuiteExtras Extras(const std::vector<StepState>& states) const;

  /// Writes suite.json, suite.md, suite.csv, suite.tex and suite.html, and reports of cells that a
  /// kill came before. What other processes have written into suite.json is taken first. Throws
  /// Error{kIo}, {kData} if that file cannot be read, {kUsage} if it is of another suite.
  void Write(const std::vector<StepState>& states);

 private:
  void TakeOwnFile();
  void TakeTable(const compare::SuiteTable& table);
  void KeepOthers(const compare::SuiteTable& own);
  double ShareOfTraining(const SuiteStep& cell) const;
  compare::SuiteCell Read(const SuiteStep& step);
  void TakeExpert(const SuiteStep& step);
  void KeepExpert(const std::string& task, compare::SuiteExpert found);
  void WriteMissingReports() const;

  const SuiteFile& suite_;
  std::span<const SuiteStep> steps_;
  std::filesystem::path folder_;
  std::map<std::size_t, compare::SuiteCell> cells_;      // by step
  std::set<std::size_t> taken_;                          // steps whose folder was read
  std::vector<compare::SuiteCell> other_cells_;          // of the suite's own file
  std::map<std::size_t, std::string> unreadable_;        // why, by step
  std::map<std::string, compare::SuiteExpert> experts_;  // by task
  std::map<std::string, core::Cost> costs_;              // by folder, as the videos
  std::map<std::string, double> training_cpu_s_;
  std::map<std::string, std::string> videos_;
  std::optional<compare::BudgetRound> round_;  // of a suite with a budget
};

}  // namespace dp_bench::suite
