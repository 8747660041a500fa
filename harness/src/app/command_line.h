// Errors for unknown verbs and options, with suggestions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace dp_bench::app {

/// Throws Error{kUsage} if the first argument looks like a verb but is not one of `verbs`.
void RequireKnownVerb(int argc, char** argv, const std::vector<std::string>& verbs);

/// Call it for a command line that CLI11 refused. Throws Error{kUsage} if `verb` was given an
/// unknown option, which explains the error better than a missing required option.
void RequireKnownOptions(const CLI::App& verb);

/// The seeds of "42,43" in each text. CLI11 alone would read -1 as the largest one and skip what is
/// empty. Throws Error{kUsage} naming the option, unless there is at least one seed and all are
/// integers from 0 to 2^63 - 1.
std::vector<std::uint64_t> ParseSeeds(std::string_view option,
                                      const std::vector<std::string>& texts);

}  // namespace dp_bench::app
