#include "compare/suite_ranking.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

namespace dp_bench::compare {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kAllTasks;  // the name of no task

// The cells by places in the table's lists: [policy][task], one for each training seed. None of a
// task that was played in several versions.
using CellGrid = std::vector<std::vector<std::vector<const SuiteCell*>>>;

CellGrid GridOf(const SuiteTable& table) {
  CellGrid grid(table.policies.size(), CellGrid::value_type(table.tasks.size()));
  for (std::size_t task = 0; task < table.tasks.size(); ++task) {
    const std::string& name = table.tasks[task].name;
    if (EnvVersionsOf(table, name).size() > 1) continue;
    for (std::size_t policy = 0; policy < table.policies.size(); ++policy) {
      grid[policy][task] = CellsOf(table, table.policies[policy], name);
    }
  }
  return grid;
}

// What two policies did on a task.
struct TaskDifferences {
  std::vector<double> by_seed;   // A minus B, each the mean over its training seeds
  std::vector<double> balanced;  // with as many trainings of each, as EvidenceOf needs it
  PairCounts counts;
};

// Of `n` cells. The next test seed begins with the next cell, so that all of them count.
int CountSuccesses(std::span<const SuiteCell* const> cells, std::uint64_t seed, std::size_t n) {
  int n_success = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const SuiteCell& cell = *cells[(seed + i) % cells.size()];
    n_success += cell.successes[seed - cell.first_seed] == '1' ? 1 : 0;
  }
  return n_success;
}

// Only the test seeds that all cells have.
TaskDifferences DifferencesOn(std::span<const SuiteCell* const> of_a,
                              std::span<const SuiteCell* const> of_b) {
  TaskDifferences result;
  if (of_a.empty() || of_b.empty()) return result;
  std::uint64_t begin = 0;
  std::uint64_t end = UINT64_MAX;
  for (const auto& cells : {of_a, of_b}) {
    for (const SuiteCell* cell : cells) {
      begin = std::max(begin, cell->first_seed);
      end = std::min(end, cell->first_seed + cell->successes.size());
    }
  }
  const auto n_a = static_cast<int>(of_a.size());
  const auto n_b = static_cast<int>(of_b.size());
  const std::size_t n = std::min(of_a.size(), of_b.size());
  for (std::uint64_t seed = begin; seed < end; ++seed) {
    const int a = CountSuccesses(of_a, seed, of_a.size());
    const int b = CountSuccesses(of_b, seed, of_b.size());
    const int more = CountSuccesses(of_a, seed, n) - CountSuccesses(of_b, seed, n);
    result.balanced.push_back(static_cast<double>(more) / static_cast<double>(n));
    result.by_seed.push_back(static_cast<double>(a) / n_a - static_cast<double>(b) / n_b);
    result.counts.Add({.both_succeed = a * b,
                       .only_a = a * (n_b - b),
                       .only_b = (n_a - a) * b,
                       .neither = (n_a - a) * (n_b - b)});
  }
  return result;
}

// The k-th difference is the mean of the tasks' k-th ones.
std::vector<double> MeanDifferences(std::span<const TaskDifferences> tasks) {
  std::vector<double> means;
  std::size_t n_tasks = 0;
  for (const TaskDifferences& task : tasks) {
    if (task.balanced.empty()) continue;
    if (n_tasks++ == 0) means.assign(task.balanced.size(), 0.0);
    means.resize(std::min(means.size(), task.balanced.size()));
    for (std::size_t k = 0; k < means.size(); ++k) means[k] += task.balanced[k];
  }
  for (double& mean : means) mean /= static_cast<double>(n_tasks);
  return means;
}

// Success rate of A minus that of B, on all seeds that they share; tasks count alike.
double DifferenceOfRates(std::span<const TaskDifferences> tasks) {
  double sum = 0.0;
  int n_tasks = 0;
  for (const TaskDifferences& task : tasks) {
    if (task.by_seed.empty()) continue;
    double of_task = 0.0;
    for (const double difference : task.by_seed) of_task += difference;
    sum += of_task / static_cast<double>(task.by_seed.size());
    ++n_tasks;
  }
  return n_tasks == 0 ? 0.0 : sum / n_tasks;
}

bool HasCell(const CellGrid& grid, std::size_t policy) {
  return std::ranges::any_of(grid[policy], [](const auto& cells) { return !cells.empty(); });
}

bool HasAllCells(const SuiteTable& table, const CellGrid& grid, std::size_t policy,
                 std::size_t task) {
  return !grid[policy][task].empty() &&
         !LacksCells(table, table.policies[policy], table.tasks[task].name);
}

// A policy that is not trained has one cell for a task, however many training seeds there are.
bool HasAllCells(const SuiteTable& table, const CellGrid& grid, std::size_t policy) {
  for (std::size_t task = 0; task < table.tasks.size(); ++task) {
    if (!HasAllCells(table, grid, policy, task)) return false;
    if (grid[policy][task].size() != grid[policy].front().size()) return false;
  }
  return !table.tasks.empty();
}

double RateOf(std::span<const SuiteCell* const> cells) {
  double n_success = 0.0;
  double n = 0.0;
  for (const SuiteCell* cell : cells) {
    n_success += static_cast<double>(std::ranges::count(cell->successes, '1'));
    n += static_cast<double>(cell->successes.size());
  }
  return n > 0.0 ? n_success / n : 0.0;
}

double MeanRateOf(const CellGrid& grid, std::size_t policy) {
  double sum = 0.0;
  for (const auto& cells : grid[policy]) sum += RateOf(cells);
  return sum / static_cast<double>(grid[policy].size());
}

// The places of `policies`, which have `rates`, from the pairs between them.
void AddPlaces(const SuiteTable& table, std::string_view task,
               std::span<const std::size_t> policies, std::span<const double> rates,
               std::span<const RankedPair> pairs, std::vector<SuitePlace>* places) {
  if (policies.size() < 2) return;
  std::vector<std::size_t> place(table.policies.size(), policies.size());
  for (std::size_t i = 0; i < policies.size(); ++i) place[policies[i]] = i;
  std::vector<RankedPair> among;
  for (RankedPair pair : pairs) {
    pair.a = place[pair.a];
    pair.b = place[pair.b];
    if (std::max(pair.a, pair.b) < policies.size()) among.push_back(pair);
  }
  const std::vector<std::string> letters = LettersByRate(rates, among);
  const std::vector<RankInterval> ranks = RankIntervals(policies.size(), among);
  for (std::size_t i = 0; i < policies.size(); ++i) {
    places->push_back({.policy = table.policies[policies[i]],
                       .task = std::string(task),
                       .letters = letters[i],
                       .rank = ranks[i]});
  }
}

std::vector<RankedPair> RankedOf(std::span<const SuitePair> pairs) {
  std::vector<RankedPair> ranked;
  for (const SuitePair& pair : pairs) ranked.push_back(pair.ranked);
  return ranked;
}

// One e-BH over all of them.
void NamePairs(std::vector<SuitePair>* pairs) {
  std::vector<RankedPair> ranked = RankedOf(*pairs);
  NameDifferences(ranked);
  for (std::size_t i = 0; i < ranked.size(); ++i) (*pairs)[i].ranked = ranked[i];
}

void AddPlacesOverAll(const SuiteTable& table, const CellGrid& grid, SuiteRanking* ranking) {
  std::vector<std::size_t> policies;
  std::vector<double> rates;
  for (std::size_t i = 0; i < table.policies.size(); ++i) {
    if (!HasAllCells(table, grid, i)) continue;
    policies.push_back(i);
    rates.push_back(MeanRateOf(grid, i));
  }
  AddPlaces(table, kAllTasks, policies, rates, RankedOf(ranking->pairs), &ranking->places);
}

void AddPlacesOnTasks(const SuiteTable& table, const CellGrid& grid, SuiteRanking* ranking) {
  for (std::size_t task = 0; task < table.tasks.size(); ++task) {
    std::vector<std::size_t> policies;
    std::vector<double> rates;
    for (std::size_t i = 0; i < table.policies.size(); ++i) {
      if (!HasAllCells(table, grid, i, task)) continue;
      policies.push_back(i);
      rates.push_back(RateOf(grid[i][task]));
    }
    const auto& pairs = ranking->on_tasks;
    const std::span<const SuitePair> of_task(
        std::ranges::lower_bound(pairs, task, {}, &SuitePair::task),
        std::ranges::upper_bound(pairs, task, {}, &SuitePair::task));
    AddPlaces(table, table.tasks[task].name, policies, rates, RankedOf(of_task), &ranking->places);
  }
}

}  // namespace

SuiteRanking RankingOf(const SuiteTable& table) {
  const CellGrid grid = GridOf(table);
  SuiteRanking ranking;
  for (std::size_t a = 0; a < table.policies.size(); ++a) {
    for (std::size_t b = a + 1; b < table.policies.size(); ++b) {
      if (!HasCell(grid, a) || !HasCell(grid, b)) continue;
      SuitePair pair = {.ranked = {.a = a, .b = b}};
      std::vector<TaskDifferences> tasks;
      for (std::size_t task = 0; task < table.tasks.size(); ++task) {
        tasks.push_back(DifferencesOn(grid[a][task], grid[b][task]));
        const TaskDifferences& on_task = tasks.back();
        if (on_task.by_seed.empty()) continue;
        pair.counts.Add(on_task.counts);
        ranking.on_tasks.push_back(
            {.ranked = {.a = a, .b = b, .evidence = EvidenceOf(on_task.balanced)},
             .difference = DifferenceOfRates({&on_task, 1}),
             .n_seeds = static_cast<int>(on_task.by_seed.size()),
             .counts = on_task.counts,
             .task = task});
      }
      const std::vector<double> means = MeanDifferences(tasks);
      pair.n_seeds = static_cast<int>(means.size());
      pair.difference = DifferenceOfRates(tasks);
      pair.ranked.evidence = EvidenceOf(means);
      ranking.pairs.push_back(pair);
    }
  }
  std::ranges::stable_sort(ranking.on_tasks, {}, &SuitePair::task);
  NamePairs(&ranking.pairs);
  NamePairs(&ranking.on_tasks);
  AddPlacesOverAll(table, grid, &ranking);
  AddPlacesOnTasks(table, grid, &ranking);
  return ranking;
}

const SuitePlace* SuiteRanking::PlaceOf(const std::string& policy, const std::string& task) const {
  const auto found = std::ranges::find_if(places, IsOf(policy, task));
  return found == places.end() ? nullptr : &*found;
}

Json ToJson(const SuiteTable& table, const SuiteRanking& ranking) {
  Json pairs = Json::array();
  for (const SuitePair& pair : ranking.pairs) {
    Json row = Json(pair.counts);
    row.update({{"a", table.policies[pair.ranked.a]},
                {"b", table.policies[pair.ranked.b]},
                {"n_seeds", pair.n_seeds},
                {"difference", pair.difference},
                {"log_a_better", pair.ranked.evidence.log_a_better},
                {"log_b_better", pair.ranked.evidence.log_b_better},
                {"is_different", pair.ranked.is_different}});
    pairs.push_back(std::move(row));
  }
  Json places = Json::array();
  for (const SuitePlace& place : ranking.places) {
    places.push_back({{"policy", place.policy},
                      {"task", place.task.empty() ? Json() : Json(place.task)},
                      {"letters", place.letters},
                      {"rank", place.rank}});
  }
  return {{"pairs", pairs}, {"places", places}};
}

}  // namespace dp_bench::compare
