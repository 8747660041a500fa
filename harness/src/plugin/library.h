// Opens one plugin file. It must name its entry before it is loaded, and its C-layout header is
// checked before any C++ type is used. It is never unloaded.
#pragma once

#include <filesystem>
#include <optional>

#include "dp_bench/plugin.h"

namespace dp_bench::plugin {

/// Whether a file that is new here is first loaded in a child process (load_probe.h).
enum class FirstTry { kInChild, kNone };

/// Loads the file and returns its header, which stays valid until the process ends. `wanted` is the
/// required kind; without it, any known kind is accepted. Throws Error{kPlugin} with the file and
/// all its faults.
const PluginHeader* OpenPlugin(const std::filesystem::path& file, std::optional<PluginKind> wanted,
                               FirstTry first_try);

}  // namespace dp_bench::plugin
