// The page over the training seeds of a run.
#pragma once

#include <filesystem>

#include "compare/multi_run.h"

namespace dp_bench::report {

/// Writes `folder`/report.html, with links to the reports of the seeds. Throws Error{kIo}.
void WriteMultiRunReport(const std::filesystem::path& folder, const compare::MultiRun& multi_run);

}  // namespace dp_bench::report
