// Writes recorded calls as a file for a trace viewer.
#pragma once

#include <span>
#include <string>

#include "inspect/op_recorder.h"

namespace dp_bench::profile {

/// Chrome's trace event format, which https://ui.perfetto.dev and chrome://tracing open. Each call
/// is a complete event ("ph": "X") with ts and dur in µs, and with flops and bytes if they were
/// counted. Process and thread names are metadata. Times are whole nanoseconds, so that rounding
/// never makes a child stick out of its parent.
std::string ChromeTrace(std::span<const OpEvent> events, const std::string& process_name);

}  // namespace dp_bench::profile
