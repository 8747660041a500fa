// A budget of test episodes for a whole table: who gets the next ones.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "compare/suite_table.h"

namespace dp_bench::compare {

/// Test seeds that each cell gets before anything is compared, if the budget has as many.
inline constexpr int kFirstShare = 10;

/// What the cells should have next.
struct BudgetRound {
  int n_budget = 0;          // test episodes of all cells together
  int n_first = 0;           // test seeds of each cell in the first round
  int n_more = 0;            // most episodes of another round
  int index = 0;             // 0: the first round
  std::vector<int> n_seeds;  // test seeds of each cell, in the order of the table
  int n_episodes = 0;        // of all cells with this round; at most the budget
  bool is_over = false;      // the cells have them, and there is no other round
  bool is_decided = false;   // on each task, each pair of policies is told apart
};

/// Replays the rounds on the first test seeds of each cell, up to the first round that some cell
/// lacks. So the rounds follow from the budget and the outcomes alone: not from interruptions, and
/// not from seeds that a cell has beyond them. The first round gives each cell kFirstShare seeds;
/// each later one at most a quarter of the episodes of the first, where AllocateOnTasks says.
///
/// `table` has all cells of the suite, with empty `successes` where nothing is known. Throws
/// Error{kUsage} for a budget of less than one episode a cell, or a table of one policy.
BudgetRound NextRound(const SuiteTable& table, int n_budget);

/// {n_budget, n_first, n_rounds, n_episodes, is_over, is_decided}: the rounds that are over, and
/// the episodes that `table` has.
nlohmann::json ToJson(const BudgetRound& round, const SuiteTable& table);

}  // namespace dp_bench::compare
