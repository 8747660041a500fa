// How far the shards of an evaluation are, for a terminal and as a page that shows itself again.
#pragma once

#include <filesystem>
#include <string>

#include "run/merge_runs.h"

namespace dp_bench::report {

/// `output`: the folder of the merged run. Ends with a line break.
std::string MergeText(const run::MergedRun& merged, const std::filesystem::path& output);

/// Writes one page without a network, which a browser reads again every 10 s until all episodes are
/// there. Throws Error{kIo}.
void WriteMergePage(const run::MergedRun& merged, const std::filesystem::path& output,
                    const std::filesystem::path& file);

}  // namespace dp_bench::report
