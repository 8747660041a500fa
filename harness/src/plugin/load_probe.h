// A first try of a plugin file in a child process: its static constructors run as soon as it is
// loaded, and one that crashes, hangs, throws or calls exit() must not end this program.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace dp_bench::plugin {

/// $XDG_CACHE_HOME/dp_bench, by default ~/.cache/dp_bench; empty if there is neither. It may not
/// exist.
std::filesystem::path CacheFolder();

/// Loads the file and calls its entry `symbol` in a child process. Returns how that went wrong:
/// "died with signal 11 (SIGSEGV)", "did not end within 10 s"; empty if nothing did. Nothing if it
/// could not be tried: the loader refuses the file, or the system refuses a process.
std::optional<std::string> ProbeLoading(const std::filesystem::path& file, const char* symbol,
                                        std::chrono::milliseconds limit);

/// ProbeLoading, unless a file with the same content passed it earlier: its hash is kept in
/// CacheFolder(). Without such a folder every program tries each file. Throws Error{kPlugin} with
/// the file and what went wrong.
void RequireLoadable(const std::filesystem::path& file, const char* symbol);

}  // namespace dp_bench::plugin
