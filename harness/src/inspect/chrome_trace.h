// Recorded calls as a file for a trace viewer.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "inspect/op_recorder.h"

namespace dp_bench::inspect {

/// In Chrome's trace event format, as https://ui.perfetto.dev and chrome://tracing open it: a
/// complete event ("ph": "X") for each call, with ts and dur in µs and, where they were counted,
/// flops and bytes; names of process and threads as metadata. Whole nanoseconds, so that a child
/// never sticks out of its parent by rounding.
std::string ChromeTrace(std::span<const OpEvent> events, const std::string& process_name);

/// Throws Error{kIo}.
void WriteChromeTrace(const std::filesystem::path& path, std::span<const OpEvent> events,
                      const std::string& process_name);

}  // namespace dp_bench::inspect
