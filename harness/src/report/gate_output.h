// The forms of a GateReport: text for people, JUnit XML for a CI server, Markdown for a pull
// request.
#pragma once

#include <string>

#include "compare/gate_report.h"

namespace dp_bench::report {

/// For the terminal; ends with a line break.
std::string GateText(const compare::GateReport& report);
/// One test case per task, which fails, errs or is skipped; of several tasks also one for all.
std::string GateJUnit(const compare::GateReport& report);
/// A comment for a pull request.
std::string GateMarkdown(const compare::GateReport& report);

}  // namespace dp_bench::report
