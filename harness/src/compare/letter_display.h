// Compact letters for many comparisons at once: runs that share a letter are not shown to differ.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dp_bench::compare {

/// Insert-and-absorb (Piepho 2004, "An algorithm for a letter-based representation of all-pairwise
/// comparisons"). `different` names the pairs of runs 0 to n - 1 that are shown to differ. Two runs
/// share a letter exactly when their pair is not among them; "a" is a letter of run 0, so that runs
/// sorted by merit give the best one an "a".
std::vector<std::string> LetterDisplay(
    std::size_t n, std::span<const std::pair<std::size_t, std::size_t>> different);

}  // namespace dp_bench::compare
