// Names that become part of a path.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::config {

/// Returns `name`. Throws Error{kConfig} unless it is 1 to 100 letters, digits, '_', '-' and '.',
/// and does not begin with '.'. `where`: "configs/a.json:3: name".
const std::string& RequireName(const std::string& name, std::string_view where);

// "Did you mean": the name closest to a mistyped one.

/// The candidate with the smallest edit distance (Levenshtein; swapping neighbours counts as one
/// edit), or nothing if none is close enough to be a typing error.
std::optional<std::string> NearestName(std::string_view name,
                                       const std::vector<std::string>& candidates);

/// " (did you mean 'horizon'?)" with that name; empty if there is none.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace dp_bench::config
