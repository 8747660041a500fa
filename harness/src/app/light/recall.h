// What the verbs that describe plugins (plugins, keys) printed, kept for the next time: it takes
// LibTorch to find out, and changes only with the plugins and with dp_bench itself.
#pragma once

#include <filesystem>

namespace dp_bench::app {

/// Prints what `program` printed for these arguments when it succeeded last, or runs it. Returns
/// its exit code. The answers are kept in plugin::CacheFolder().
int RecallOrRun(const std::filesystem::path& program, int argc, char** argv);

}  // namespace dp_bench::app
