#include "compare/budget_rounds.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compare/allocation.h"
#include "compare/suite_ranking.h"
#include "core/errors.h"

namespace dp_bench::compare {
namespace {

bool HasAllSeeds(const SuiteTable& table, const BudgetRound& round) {
  for (std::size_t i = 0; i < table.cells.size(); ++i) {
    if (std::ssize(table.cells[i].successes) < round.n_seeds[i]) return false;
  }
  return true;
}

SuiteTable FirstSeeds(SuiteTable table, const BudgetRound& round) {
  for (std::size_t i = 0; i < table.cells.size(); ++i) {
    table.cells[i].successes.resize(static_cast<std::size_t>(round.n_seeds[i]));
  }
  return table;
}

// False if there is nothing to give, or nothing to give it for.
bool AddRound(const SuiteTable& table, BudgetRound* round) {
  const SuiteTable seen = FirstSeeds(table, *round);
  const SuiteRanking ranking = RankingOf(seen);
  round->is_decided = VersionFaults(seen).empty() &&
                      std::ranges::all_of(ranking.on_tasks, [](const SuitePair& pair) {
                        return pair.ranked.is_different;
                      });
  const int n_more = std::min(round->n_more, round->n_budget - round->n_episodes);
  const std::vector<PolicyBudget> budgets = AllocateOnTasks(seen, ranking, n_more);
  for (const PolicyBudget& budget : budgets) {
    for (std::size_t i = 0; i < table.cells.size(); ++i) {
      if (IsOf(budget.policy, budget.task)(table.cells[i])) round->n_seeds[i] = budget.n_total();
    }
    round->n_episodes += budget.n_episodes();
  }
  round->index += budgets.empty() ? 0 : 1;
  return !budgets.empty();
}

}  // namespace

BudgetRound NextRound(const SuiteTable& table, int n_budget) {
  const int n_cells = static_cast<int>(table.cells.size());
  if (table.policies.size() < 2) {
    throw UsageError("a budget is for telling policies apart, but the suite has only one");
  }
  if (n_budget < n_cells) {
    throw UsageError(
        "a budget of {} episodes is less than one for each of the {} cells (policies x tasks x "
        "training seeds)",
        n_budget, n_cells);
  }
  BudgetRound round = {.n_budget = n_budget, .n_first = std::min(kFirstShare, n_budget / n_cells)};
  round.n_seeds.assign(table.cells.size(), round.n_first);
  round.n_episodes = round.n_first * n_cells;
  round.n_more = std::max(1, round.n_episodes / 4);
  while (HasAllSeeds(table, round)) {
    if (!AddRound(table, &round)) {
      round.is_over = true;
      break;
    }
  }
  return round;
}

nlohmann::json ToJson(const BudgetRound& round, const SuiteTable& table) {
  std::size_t n_episodes = 0;
  for (const SuiteCell& cell : table.cells) n_episodes += cell.successes.size();
  return {{"n_budget", round.n_budget},
          {"n_first", round.n_first},
          {"n_rounds", round.index + (round.is_over ? 1 : 0)},
          {"n_episodes", n_episodes},
          {"is_over", round.is_over},
          {"is_decided", round.is_decided}};
}

}  // namespace dp_bench::compare
