// A GateReport as text for the terminal, JUnit XML for a CI server, and Markdown for a pull
// request.
#pragma once

#include <string>
#include <vector>

#include "compare/gate_plan.h"
#include "compare/gate_report.h"

namespace dp_bench::report {

/// The evidence so far, on one line, while a gate rolls out; empty if there is none.
std::string GateProgressLine(const compare::GateResult& result);

/// For the terminal; ends with a line break.
std::string GateText(const compare::GateReport& report);
/// One test case per task: passed, failed, error or skipped. With several tasks also one for all.
std::string GateJUnit(const compare::GateReport& report);
/// A comment for a pull request.
std::string GateMarkdown(const compare::GateReport& report);

/// For the terminal; ends with a line break.
std::string GatePlanText(const std::vector<compare::GatePlan>& plans);

}  // namespace dp_bench::report
