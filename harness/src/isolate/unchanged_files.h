// Every process loads program, library and plugin from disk: that they are replaced while a run
// goes on, by a new build, must not change its outcome unnoticed.
#pragma once

#include <filesystem>

namespace dp_bench {

/// Throws Error{kPlugin} when the file is not the one that it was at the first call for it.
void RequireUnchanged(const std::filesystem::path& file);

/// The library that holds this function.
std::filesystem::path OwnLibrary();

}  // namespace dp_bench
