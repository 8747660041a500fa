// Where the next episodes are worth most: with the policies that are not told apart yet.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compare/suite_ranking.h"

namespace dp_bench::compare {

/// More test seeds for a policy, the same number for each of its cells.
struct PolicyBudget {
  std::string policy;
  std::string task;  // empty: all tasks
  int n_seeds = 0;   // that it has, in each cell
  int n_more = 0;
  int n_cells = 0;                  // tasks times training seeds, or training seeds on `task`
  std::vector<std::string> rivals;  // with which it shares a letter

  int n_total() const { return n_seeds + n_more; }
  int n_episodes() const { return n_more * n_cells; }
};

/// Distributes at most `n_episodes` among the policies that share a letter over all tasks with
/// another one. The pair comes first that, if its evidence grows as before, is told apart with the
/// fewest more seeds; both get the seeds that this takes, on all tasks, first the one that has
/// fewer. Empty if all policies are told apart; those without a place (SuiteRanking) get nothing.
std::vector<PolicyBudget> Allocate(const SuiteTable& table, const SuiteRanking& ranking,
                                   int n_episodes);

/// The same for each task by itself: the policies that share a letter on it get seeds of it. The
/// pairs of all tasks are one list.
std::vector<PolicyBudget> AllocateOnTasks(const SuiteTable& table, const SuiteRanking& ranking,
                                          int n_episodes);

/// {format, n_episodes, policies: [{policy, n_seeds, n_more, n_episodes, rivals, cells}]}, with
/// folder, task, training seed and first new test seed of each cell.
nlohmann::json ToJson(const SuiteTable& table, const std::vector<PolicyBudget>& budgets);

/// Runs of one task as a table, a policy each; their test seeds must follow each other. Throws
/// Error{kUsage} for a folder that is there twice.
SuiteTable TableOf(const std::vector<run::RunFolder>& runs);

}  // namespace dp_bench::compare
