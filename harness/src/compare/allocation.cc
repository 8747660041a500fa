#include "compare/allocation.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "core/errors.h"

namespace dp_bench::compare {
namespace {

// The pairs over all tasks, or those of each task.
struct Scope {
  const SuiteTable& table;
  const SuiteRanking& ranking;
  bool is_by_task = false;

  const std::vector<SuitePair>& pairs() const {
    return is_by_task ? ranking.on_tasks : ranking.pairs;
  }
  std::string TaskOf(const SuitePair& pair) const {
    return is_by_task ? table.tasks[pair.task].name : "";
  }
};

// The policies with a place that are not told from this one.
std::vector<std::string> RivalsOf(const std::string& policy, const std::string& task,
                                  const Scope& scope) {
  std::vector<std::string> rivals;
  for (const SuitePair& pair : scope.pairs()) {
    const std::string& a = scope.table.policies[pair.ranked.a];
    const std::string& b = scope.table.policies[pair.ranked.b];
    if (pair.ranked.is_different || (a != policy && b != policy)) continue;
    const std::string& other = a == policy ? b : a;
    if (scope.TaskOf(pair) != task || scope.ranking.PlaceOf(other, task) == nullptr) continue;
    rivals.push_back(other);
  }
  return rivals;
}

// The policies that are not told from all others.
std::vector<PolicyBudget> OpenPolicies(const Scope& scope) {
  std::vector<PolicyBudget> open;
  std::vector<std::string> tasks = {""};
  if (scope.is_by_task) {
    tasks.clear();
    for (const SuiteTaskName& task : scope.table.tasks) tasks.push_back(task.name);
  }
  for (const std::string& task : tasks) {
    for (const std::string& policy : scope.table.policies) {
      if (scope.ranking.PlaceOf(policy, task) == nullptr) continue;
      PolicyBudget budget = {
          .policy = policy, .task = task, .rivals = RivalsOf(policy, task, scope)};
      if (budget.rivals.empty()) continue;
      for (const SuiteCell& cell : scope.table.cells) {
        if (cell.policy != policy || (scope.is_by_task && cell.task != task)) continue;
        const int n = static_cast<int>(cell.successes.size());
        budget.n_seeds = budget.n_cells == 0 ? n : std::min(budget.n_seeds, n);
        ++budget.n_cells;
      }
      open.push_back(std::move(budget));
    }
  }
  return open;
}

// Two policies that are not told apart: places in the list of open ones.
struct OpenPair {
  std::size_t a = 0;
  std::size_t b = 0;
  double n_wanted = 0.0;  // test seeds of each, to tell them apart
};

// Those that need the fewest more seeds first.
std::vector<OpenPair> OpenPairs(const Scope& scope, const std::vector<PolicyBudget>& open) {
  // what the mixture of bets costs before anything is seen
  constexpr double kStart = 3.2;
  const double threshold = std::log(2.0 * static_cast<double>(scope.pairs().size()) / 0.05);
  const auto place = [&](std::size_t policy, const std::string& task) {
    const auto found = std::ranges::find_if(open, [&](const PolicyBudget& budget) {
      return budget.policy == scope.table.policies[policy] && budget.task == task;
    });
    return static_cast<std::size_t>(found - open.begin());
  };
  std::vector<std::pair<double, OpenPair>> by_need;
  for (const SuitePair& pair : scope.pairs()) {
    if (pair.ranked.is_different) continue;
    const std::size_t a = place(pair.ranked.a, scope.TaskOf(pair));
    const std::size_t b = place(pair.ranked.b, scope.TaskOf(pair));
    if (std::max(a, b) >= open.size()) continue;
    const PairEvidence& evidence = pair.ranked.evidence;
    const double log_evidence = std::max(evidence.log_a_better, evidence.log_b_better);
    const double per_seed = std::max(0.1, log_evidence + kStart) / std::max(1, pair.n_seeds);
    const double need = std::max(1.0, std::ceil((threshold - log_evidence) / per_seed));
    by_need.emplace_back(need, OpenPair{.a = a, .b = b, .n_wanted = pair.n_seeds + need});
  }
  std::ranges::stable_sort(by_need, {}, &std::pair<double, OpenPair>::first);
  std::vector<OpenPair> pairs;
  for (const auto& [need, pair] : by_need) pairs.push_back(pair);
  return pairs;
}

std::vector<PolicyBudget> Distribute(const Scope& scope, int n_episodes) {
  std::vector<PolicyBudget> open = OpenPolicies(scope);
  for (const OpenPair& pair : OpenPairs(scope, open)) {
    while (true) {
      PolicyBudget& least =
          open[pair.a].n_total() <= open[pair.b].n_total() ? open[pair.a] : open[pair.b];
      if (least.n_total() >= pair.n_wanted || least.n_cells > n_episodes) break;
      ++least.n_more;
      n_episodes -= least.n_cells;
    }
  }
  std::erase_if(open, [](const PolicyBudget& each) { return each.n_more == 0; });
  return open;
}

}  // namespace

std::vector<PolicyBudget> Allocate(const SuiteTable& table, const SuiteRanking& ranking,
                                   int n_episodes) {
  return Distribute({.table = table, .ranking = ranking}, n_episodes);
}

std::vector<PolicyBudget> AllocateOnTasks(const SuiteTable& table, const SuiteRanking& ranking,
                                          int n_episodes) {
  return Distribute({.table = table, .ranking = ranking, .is_by_task = true}, n_episodes);
}

nlohmann::json ToJson(const SuiteTable& table, const std::vector<PolicyBudget>& budgets) {
  nlohmann::json policies = nlohmann::json::array();
  int n_episodes = 0;
  for (const PolicyBudget& budget : budgets) {
    nlohmann::json cells = nlohmann::json::array();
    for (const SuiteCell& cell : table.cells) {
      if (cell.policy != budget.policy) continue;
      // cells with more seeds than the policy's least catch up
      const int n_test =
          std::max(budget.n_seeds + budget.n_more, static_cast<int>(cell.successes.size()));
      cells.push_back({{"task", cell.task},
                       {"seed", cell.seed},
                       {"folder", cell.folder},
                       {"next_seed", cell.first_seed + cell.successes.size()},
                       {"n_test", n_test}});
    }
    policies.push_back({{"policy", budget.policy},
                        {"n_seeds", budget.n_seeds},
                        {"n_more", budget.n_more},
                        {"n_test", budget.n_seeds + budget.n_more},
                        {"n_episodes", budget.n_episodes()},
                        {"rivals", budget.rivals},
                        {"cells", std::move(cells)}});
    n_episodes += budget.n_episodes();
  }
  return {{"format", "dp_bench.compare.allocation.v1"},
          {"n_episodes", n_episodes},
          {"policies", std::move(policies)}};
}

SuiteTable TableOf(const std::vector<run::RunFolder>& runs) {
  SuiteTable table = {.name = "runs", .tasks = {{"task", ""}}};
  std::set<std::filesystem::path> folders;
  for (const run::RunFolder& run : runs) {
    if (!folders.insert(std::filesystem::weakly_canonical(run.path)).second) {
      throw UsageError("'{}' is named twice", run.path.string());
    }
    SuiteCell cell = OutcomesOf(run);
    cell.policy = run.path.string();
    if (run.seed_origin.empty()) cell.folder = cell.policy;
    cell.task = table.tasks.front().name;
    table.policies.push_back(cell.policy);
    table.cells.push_back(std::move(cell));
  }
  return table;
}

}  // namespace dp_bench::compare
