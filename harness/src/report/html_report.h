// report.html: one self-contained page about a run, from its run folder only, or about the runs of
// several training seeds.
#pragma once

#include <filesystem>
#include <string>

#include "compare/multi_run.h"
#include "run/run_folder.h"

namespace dp_bench::report {

/// Writes the run's report.html with everything that the run folder has. The page needs no network
/// and no script. Throws Error{kData} if a file is invalid, Error{kIo}.
void WriteHtmlReport(const run::RunFolder& run);

/// One row per training seed, then mean, standard deviation and interval over the seeds.
std::string MultiRunTable(const compare::MultiRun& multi_run);

/// Writes the page next to the seeds' run folders. Throws Error{kIo}.
void WriteMultiRunReport(const compare::MultiRun& multi_run);

/// The image that stands for a video on a page: its first frame as a data URL, which a browser
/// shows until the video is played. It may not know the codec, or load nothing before. Empty if the
/// video cannot be read.
std::string VideoPoster(const std::filesystem::path& video);

}  // namespace dp_bench::report
