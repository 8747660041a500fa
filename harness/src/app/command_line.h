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

}  // namespace dp_bench::app
