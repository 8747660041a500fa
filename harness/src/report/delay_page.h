// Success against the time that a plan takes (compare/delay_curves.h), for a terminal and as a
// page.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dp_bench::report {

/// `rows`: of compare::CompareDelays. Ends with a line break.
std::string DelayTable(nlohmann::json rows);

/// Writes one page without a network: success, time to success, successes per hour, stale steps and
/// jerk against the delay, one curve for each method (of each policy, if there are several), and
/// the table. `is_quasi_static`: the env does not say that it moves without actions. `generator`:
/// the command that writes it. Throws Error{kIo}.
void WriteDelayPage(nlohmann::json rows, bool is_quasi_static, const std::string& generator,
                    const std::filesystem::path& file);

}  // namespace dp_bench::report
