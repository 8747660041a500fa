// dp_bench plugins new: a project for a plugin outside this repository.
#pragma once

#include <filesystem>
#include <string>

namespace dp_bench::app {

/// Writes the project of the template for this kind ("env", "policy" or "dataset") to `folder`,
/// with `name` in place of the template's. Returns the commands that build and try it. Throws
/// Error{kUsage} for a name that is not snake_case, and if the folder exists and is not empty.
std::string MakePluginProject(const std::string& kind, const std::string& name,
                              const std::filesystem::path& folder);

/// The program with the conformance suite for a kind of plugin. Throws Error{kIo} if this build or
/// installation has none.
std::filesystem::path ConformanceProgram(const std::string& kind);

}  // namespace dp_bench::app
