// The table of a suite: as text, Markdown, CSV and LaTeX, and as a page with a heat map.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compare/budget_rounds.h"
#include "compare/suite_table.h"
#include "core/machine.h"

namespace dp_bench::report {

/// What the folders of a suite have beside the outcomes, by SuiteCell::folder.
struct SuiteExtras {
  std::map<std::string, core::Cost> costs;       // of the cells' own runs
  std::map<std::string, double> training_cpu_s;  // a cell's share of a training for all tasks
  std::map<std::string, std::string> videos;     // one of each, relative to the suite's folder
  std::vector<std::string> failed;               // steps and tasks, and why
  std::optional<compare::BudgetRound> round;     // of a suite with a budget
};

/// For the terminal; ends with a line break.
std::string SuiteText(const compare::SuiteTable& table, const SuiteExtras& extras);

/// Writes suite.md, suite.csv, suite.tex and suite.html into the suite's folder. The page is
/// self-contained, except for videos and reports in the folder. Throws Error{kIo}.
void WriteSuitePages(const compare::SuiteTable& table, const SuiteExtras& extras,
                     const std::filesystem::path& folder);

}  // namespace dp_bench::report
