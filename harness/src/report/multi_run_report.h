// The page about all training seeds of a run.
#pragma once

#include "compare/multi_run.h"

namespace dp_bench::report {

/// Writes report.html with links to the reports of the seeds. Throws Error{kIo}.
void WriteMultiRunReport(const compare::MultiRun& multi_run);

}  // namespace dp_bench::report
