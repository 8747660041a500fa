// What belongs to the program and lies beside it, in a build or in an installation.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dp_bench::app {

/// build/<preset>/bin, or bin of an installation.
std::filesystem::path ProgramFolder();

/// The first of `places` that exists. Throws Error{kIo} that names `what` and all of them.
std::filesystem::path FirstOf(const std::string& what,
                              const std::vector<std::filesystem::path>& places);

/// Becomes `program`, which is looked for in PATH if it has no slash. Throws Error{kIo} if it
/// cannot be started.
[[noreturn]] void Become(const std::filesystem::path& program, std::vector<std::string> arguments);

}  // namespace dp_bench::app
