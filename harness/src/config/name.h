// Names that become a part of a path.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::config {

/// Returns `name`. Throws Error{kConfig} unless it is 1 to 100 letters, digits, '_', '-' and '.',
/// and does not begin with a '.'; `where`: "configs/a.json:3: name".
const std::string& RequireName(const std::string& name, std::string_view where);

// "Did you mean": the name closest to a mistyped one.

/// The candidate with the smallest edit distance (Levenshtein; a swap of neighbours counts one), or
/// nothing when none is close enough to be a slip of the fingers.
std::optional<std::string> NearestName(std::string_view name,
                                       const std::vector<std::string>& candidates);

}  // namespace dp_bench::config
