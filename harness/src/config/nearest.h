// "Did you mean": the name closest to a mistyped one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench {

/// The candidate with the smallest edit distance (Levenshtein; a swap of neighbours counts one), or
/// nothing when none is close enough to be a slip of the fingers.
std::optional<std::string> NearestName(std::string_view name,
                                       const std::vector<std::string>& candidates);

}  // namespace dp_bench
