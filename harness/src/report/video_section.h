// The films of report.html, with what was planned in them where the run noted it.
#pragma once

#include <kainjow/mustache.hpp>

#include "report/html_report.h"
#include "run/run_folder.h"

namespace dp_bench::report {

/// Sets `films`, those with notes (rollout/film_notes.h) beside them, and `videos`, the others.
/// Throws Error{kData} naming notes that are not what they should be.
void SetVideos(const run::RunFolder& folder, const HtmlReportOptions& options,
               kainjow::mustache::data* page);

}  // namespace dp_bench::report
