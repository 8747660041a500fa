// What the user meant by a verb or an option that does not exist.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace dp_bench::app {

/// Throws Error{kUsage} when the first argument looks like a verb and is none of `verbs`.
void RequireKnownVerb(int argc, char** argv, const std::vector<std::string>& verbs);

/// For a command line that CLI11 refused: throws Error{kUsage} when it gave `verb` an option that
/// it does not have. An unknown option is also why a required one is missing.
void RequireKnownOptions(const CLI::App& verb);

}  // namespace dp_bench::app
