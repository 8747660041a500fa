// Files that are being written and have no name yet, so that a killed program leaves nothing.
// Source: open(2), O_TMPFILE. Where the file system or the sandbox cannot do that, they have their
// temporary name from the start.
#pragma once

#include <filesystem>

namespace dp_bench::core {

/// Opens a new file in the folder of `temporary`, for reading and writing. Throws Error{kIo}.
int OpenUnnamed(const std::filesystem::path& temporary);

/// A path that opens the same file, for libraries that open files themselves.
std::filesystem::path PathOfUnnamed(int descriptor, const std::filesystem::path& temporary);

/// Gives the file the name `temporary` if it has none yet. Throws Error{kIo}.
void NameUnnamed(int descriptor, const std::filesystem::path& temporary);

/// Removes what killed writers of `path` left next to it. Their locks ended with them; a writer
/// that is alive keeps its file. Defined in atomic_file.cc.
void RemoveLeftOvers(const std::filesystem::path& path);

}  // namespace dp_bench::core
