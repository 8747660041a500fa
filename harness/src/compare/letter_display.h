// Compact letters for many comparisons at once: runs with a letter in common do not differ
// significantly.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dp_bench::compare {

/// Insert-and-absorb (Piepho 2004, "An algorithm for a letter-based representation of all-pairwise
/// comparisons"). `different` lists the pairs of runs 0 to n - 1 that differ significantly. Two
/// runs share a letter exactly if their pair is not listed. Run 0 has the letter "a", so if runs
/// are sorted by merit, the best one has an "a".
std::vector<std::string> LetterDisplay(
    std::size_t n, std::span<const std::pair<std::size_t, std::size_t>> different);

}  // namespace dp_bench::compare
