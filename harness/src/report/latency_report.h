// What an evaluation says about the policy's latency, for the terminal and for report.html.
#pragma once

#include <filesystem>
#include <kainjow/mustache.hpp>
#include <string>

#include "run/latency.h"

namespace dp_bench::report {

inline constexpr const char* kLatencyFile = "latency.json";

/// Percentiles of chunks and stages, and how many chunks would have been late. Ends with a line
/// break.
std::string LatencyTable(const run::PolicyLatency& latency);

/// Sets `latency` of report.html's page from a latency.json; false where there is none. Throws
/// Error{kData} when it is not what it should be.
void SetLatency(const std::filesystem::path& file, kainjow::mustache::data* page);

}  // namespace dp_bench::report
