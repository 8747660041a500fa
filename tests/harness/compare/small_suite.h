// A table of three policies and three tasks, small enough to compute by hand.
#pragma once

#include <cstdint>
#include <string>

#include "compare/suite_table.h"

namespace dp_bench::compare {

inline SuiteCell Cell(const std::string& policy, const std::string& task,
                      const std::string& successes, std::uint64_t seed = 42) {
  return {.policy = policy,
          .task = task,
          .seed = seed,
          .config_sha256 = policy + task + std::to_string(seed),
          .first_seed = 100000,
          .successes = successes,
          .folder = "cells/" + policy + "/" + task};
}

/// "strong" solves what "weak" solves and more; "other" has only one task.
inline SuiteTable SmallTable() {
  return {.name = "small",
          .policies = {"weak", "strong", "other"},
          .tasks = {{"reach", "easy"}, {"push", "easy"}, {"lift", "hard"}},
          .seeds = {42},
          .cells = {Cell("weak", "reach", "1111000000"), Cell("weak", "push", "0000000000"),
                    Cell("weak", "lift", "0000000001"), Cell("strong", "reach", "1111111111"),
                    Cell("strong", "push", "1111100000"), Cell("strong", "lift", "1111111111"),
                    Cell("other", "reach", "1111100000")},
          .experts = {{"reach", "abc", 20, 21}}};
}

}  // namespace dp_bench::compare
