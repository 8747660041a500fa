// Links between files that a page and its videos keep when their folders move together.
#pragma once

#include <filesystem>
#include <string>

namespace dp_bench::report {

/// A relative path as the value of href or src: percent-encoded, and with "./" in front so that no
/// path can be taken for a URL with a scheme.
std::string LinkTo(const std::filesystem::path& relative_path);

/// Whether a path that a file names stays below the folder of that file; an empty one does not.
bool StaysBelow(const std::string& relative_path);

/// A link to a file below the folder; empty for a path that would leave it.
std::string LinkBelow(const std::string& relative_path);

}  // namespace dp_bench::report
