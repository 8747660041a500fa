// report.html: one self-contained page about a run, made of its run folder alone.
#pragma once

#include <cstddef>

#include "run/run_folder.h"

namespace dp_bench::report {

struct HtmlReportOptions {
  bool embed_videos = false;                              // inside the page instead of linked
  std::size_t max_embedded_bytes = std::size_t{8} << 20;  // larger videos stay links
};

/// Writes the run's report.html, which shows all that the run folder holds; what is absent is left
/// out. Needs no network and no script. Throws Error{kData} when a file is not what it should be,
/// Error{kIo}.
void WriteHtmlReport(const run::RunFolder& run, const HtmlReportOptions& options = {});

}  // namespace dp_bench::report
