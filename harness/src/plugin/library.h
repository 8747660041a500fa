// Opening one plugin file: what it exports is checked before it is loaded, its C-layout header
// before any C++ type is used, and it is never unloaded.
#pragma once

#include <filesystem>
#include <optional>

#include "dp_bench/plugin.h"

namespace dp_bench::plugin {

/// Loads the file and returns its header, which stays valid until the process ends. `wanted` is the
/// kind it has to be; without it any kind of ours will do. Throws Error{kPlugin} with the file and
/// everything that is wrong with it.
const PluginHeader* OpenPlugin(const std::filesystem::path& file, std::optional<PluginKind> wanted);

}  // namespace dp_bench::plugin
