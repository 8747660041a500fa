// Many policies over many repetitions: how often letters and ranks are wrong, how many episodes the
// allocation saves, and how often the interval of a real rate covers. Simulated with our own random
// streams, so every figure is the same on every machine. DPB_FULL_SIMULATION=1 runs 100,000 tables
// and 10,000 intervals of each kind, which takes minutes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "compare/allocation.h"
#include "compare/budget_rounds.h"
#include "compare/real_rate.h"
#include "compare/suite_ranking.h"
#include "dp_bench/random.h"

namespace dp_bench::compare {
namespace {

bool IsLong() { return std::getenv("DPB_FULL_SIMULATION") != nullptr; }
int TimesOr(int full, int few) { return IsLong() ? full : few; }

/// Success rates by policy and task, and how the episodes of a test seed depend on each other.
struct World {
  std::vector<std::vector<double>> rates;  // [policy][task]
  int n_trainings = 1;
  double of_seed = 0.0;   // share of the luck that all policies have in common on a seed of a task
  double of_tasks = 0.0;  // share of a policy's own luck that its tasks have in common on a seed
};

// The standard normal distribution function.
double Normal(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

/// Draws test seeds of a table one by one.
class TableStream {
 public:
  TableStream(const World& world, std::uint64_t repetition)
      : world_(world), stream_(4242, StreamId::kEnvStart, repetition) {
    table_ = {.name = "simulated"};
    for (std::size_t task = 0; task < world.rates[0].size(); ++task) {
      table_.tasks.push_back({"t" + std::to_string(task), ""});
    }
    for (std::size_t policy = 0; policy < world.rates.size(); ++policy) {
      table_.policies.push_back("p" + std::to_string(policy));
      for (const SuiteTaskName& task : table_.tasks) {
        for (int training = 0; training < world.n_trainings; ++training) {
          table_.cells.push_back({.policy = table_.policies.back(),
                                  .task = task.name,
                                  .seed = static_cast<std::uint64_t>(training)});
        }
      }
    }
  }

  const SuiteTable& table() const { return table_; }

  /// Policies that have less than `n_seeds` get them, [policy].
  void Fill(std::span<const int> n_seeds) {
    const std::size_t n_tasks = table_.tasks.size();
    const auto n_trainings = static_cast<std::size_t>(world_.n_trainings);
    const int most = *std::ranges::max_element(n_seeds);
    while (std::ssize(outcomes_) < most) DrawSeed();
    for (std::size_t i = 0; i < table_.cells.size(); ++i) {
      std::string& successes = table_.cells[i].successes;
      const std::size_t policy = i / (n_tasks * n_trainings);
      while (std::ssize(successes) < n_seeds[policy]) successes += outcomes_[successes.size()][i];
    }
  }

 private:
  void DrawSeed() {
    std::string outcomes;
    std::vector<double> common;
    for (std::size_t task = 0; task < table_.tasks.size(); ++task) common.push_back(Gauss());
    for (const std::vector<double>& rates : world_.rates) {
      const double own = Gauss();
      for (std::size_t task = 0; task < rates.size(); ++task) {
        for (int training = 0; training < world_.n_trainings; ++training) {
          const double rest = 1.0 - world_.of_seed - world_.of_tasks;
          const double luck = std::sqrt(world_.of_seed) * common[task] +
                              std::sqrt(world_.of_tasks) * own + std::sqrt(rest) * Gauss();
          outcomes += Normal(luck) < rates[task] ? '1' : '0';
        }
      }
    }
    outcomes_.push_back(outcomes);
  }

  // Box and Muller
  double Gauss() {
    const double u = 1.0 - stream_.UniformDouble();
    return std::sqrt(-2.0 * std::log(u)) *
           std::cos(2.0 * 3.14159265358979 * stream_.UniformDouble());
  }

  World world_;
  RandomStream stream_;
  SuiteTable table_;
  std::vector<std::string> outcomes_;  // [test seed][cell]
};

std::vector<int> AllHave(const World& world, int n_seeds) {
  return std::vector<int>(world.rates.size(), n_seeds);
}

double MeanRate(const World& world, std::size_t policy) {
  double sum = 0.0;
  for (const double rate : world.rates[policy]) sum += rate;
  return sum / static_cast<double>(world.rates[policy].size());
}

bool IsTrulyBetter(const World& world, std::size_t a, std::size_t b) {
  return MeanRate(world, a) > MeanRate(world, b) + 1e-9;
}

struct FalseAlarms {
  double discovery_rate = 0.0;  // the mean over tables of the share of false pairs among the named
  double any = 0.0;             // share of tables with a false pair
  double wrong_rank = 0.0;      // share of tables with a rank interval that misses
};

// Looks after every 10 seeds, and keeps the worst of all looks if `peeks`; the guarantee of e-BH is
// about the look at which one stops, here the one with the most pairs named.
FalseAlarms CountFalseAlarms(const World& world, int n_tables, int n_seeds) {
  FalseAlarms sum;
  for (int repetition = 0; repetition < n_tables; ++repetition) {
    TableStream tables(world, static_cast<std::uint64_t>(repetition));
    std::size_t most_named = 0;
    double share_false = 0.0;
    bool misses = false;
    for (int n = 10; n <= n_seeds; n += 10) {
      tables.Fill(AllHave(world, n));
      const SuiteRanking ranking = RankingOf(tables.table());
      std::size_t n_named = 0;
      std::size_t n_false = 0;
      for (const SuitePair& pair : ranking.pairs) {
        if (!pair.ranked.is_different) continue;
        ++n_named;
        const bool says_a = pair.ranked.evidence.log_a_better > pair.ranked.evidence.log_b_better;
        const std::size_t better = says_a ? pair.ranked.a : pair.ranked.b;
        const std::size_t worse = says_a ? pair.ranked.b : pair.ranked.a;
        n_false += IsTrulyBetter(world, better, worse) ? 0 : 1;
      }
      if (n_named > most_named) {
        most_named = n_named;
        share_false = static_cast<double>(n_false) / static_cast<double>(n_named);
      }
      for (std::size_t i = 0; i < world.rates.size(); ++i) {
        int n_better = 0;
        int n_worse = 0;
        for (std::size_t k = 0; k < world.rates.size(); ++k) {
          n_better += IsTrulyBetter(world, k, i) ? 1 : 0;
          n_worse += IsTrulyBetter(world, i, k) ? 1 : 0;
        }
        // equal policies may have any order among them
        const RankInterval rank = ranking.places[i].rank;
        const int last = static_cast<int>(world.rates.size()) - n_worse;
        misses = misses || rank.best > n_better + 1 || rank.worst < last;
      }
    }
    sum.discovery_rate += share_false / n_tables;
    sum.any += (share_false > 0.0 ? 1.0 : 0.0) / n_tables;
    sum.wrong_rank += (misses ? 1.0 : 0.0) / n_tables;
  }
  return sum;
}

struct NamedWorld {
  const char* name;
  World world;
};

std::vector<std::vector<double>> SameRates(std::size_t n_policies,
                                           const std::vector<double>& rates) {
  return std::vector<std::vector<double>>(n_policies, rates);
}

std::vector<NamedWorld> Worlds() {
  return {
      {"4 equal policies, 1 task", {.rates = SameRates(4, {0.6}), .of_seed = 0.5}},
      {"4 equal policies, 5 tasks, one common luck of the tasks",
       {.rates = SameRates(4, {0.9, 0.7, 0.5, 0.3, 0.1}), .of_seed = 0.2, .of_tasks = 0.7}},
      {"3 equal policies, 3 tasks, 3 trainings of one luck",
       {.rates = SameRates(3, {0.8, 0.5, 0.2}), .n_trainings = 3, .of_tasks = 0.6}},
      {"4 equal policies, nearly always ties",
       {.rates = SameRates(4, {0.97, 0.99, 0.02}), .of_seed = 0.6}},
      {"2 pairs of equal policies, 3 tasks",
       {.rates = {{0.8, 0.7, 0.6}, {0.8, 0.7, 0.6}, {0.5, 0.4, 0.3}, {0.5, 0.4, 0.3}},
        .of_seed = 0.3,
        .of_tasks = 0.3}},
      {"equal means, each better on other tasks",
       {.rates = {{0.9, 0.5, 0.1}, {0.1, 0.5, 0.9}, {0.5, 0.5, 0.5}}, .of_seed = 0.2}},
      {"equal means, rare failures against one hard task",
       {.rates = {{0.98, 0.98, 0.98, 0.98, 0.0}, {0.784, 0.784, 0.784, 0.784, 0.784}}}},
  };
}

TEST(ManyPolicies, FalseLettersAndRanksStayBelowTheirLevelAtEveryLook) {
  const int n_tables = TimesOr(100'000, 300);
  for (const NamedWorld& each : Worlds()) {
    const FalseAlarms found = CountFalseAlarms(each.world, n_tables, IsLong() ? 50 : 40);
    std::printf("%-60s false discoveries %.3f %%, any %.3f %%, ranks %.3f %%\n", each.name,
                100.0 * found.discovery_rate, 100.0 * found.any, 100.0 * found.wrong_rank);
    const double margin = 3.0 * std::sqrt(0.05 * 0.95 / n_tables);
    EXPECT_LE(found.discovery_rate, 0.05 + margin) << each.name;
    EXPECT_LE(found.wrong_rank, 0.05 + margin) << each.name;
  }
}

// The pairs that are truly different and named.
int TruePairs(const World& world, const SuiteTable& table) {
  int n = 0;
  for (const SuitePair& pair : RankingOf(table).pairs) {
    const bool differ = IsTrulyBetter(world, pair.ranked.a, pair.ranked.b) ||
                        IsTrulyBetter(world, pair.ranked.b, pair.ranked.a);
    n += pair.ranked.is_different && differ ? 1 : 0;
  }
  return n;
}

int EpisodesIn(const SuiteTable& table) {
  int n = 0;
  for (const SuiteCell& cell : table.cells) n += static_cast<int>(cell.successes.size());
  return n;
}

// Episodes until all truly different pairs are named, from 20 seeds on in steps of 10 seeds.
int EpisodesUntilTold(const World& world, std::uint64_t repetition, bool allocates) {
  constexpr int kMostSeeds = 1500;
  TableStream tables(world, repetition);
  std::vector<int> n_seeds = AllHave(world, 20);
  const int n_cells = static_cast<int>(world.rates[0].size()) * world.n_trainings;
  const int step = 10 * n_cells * static_cast<int>(world.rates.size());
  int n_different = 0;
  for (std::size_t a = 0; a < world.rates.size(); ++a) {
    for (std::size_t b = 0; b < world.rates.size(); ++b) n_different += IsTrulyBetter(world, a, b);
  }
  while (true) {
    tables.Fill(n_seeds);
    if (TruePairs(world, tables.table()) == n_different) return EpisodesIn(tables.table());
    if (*std::ranges::max_element(n_seeds) >= kMostSeeds) return EpisodesIn(tables.table());
    if (!allocates) {
      for (int& n : n_seeds) n += 10;
      continue;
    }
    // a quarter of the uniform step at once
    const SuiteRanking ranking = RankingOf(tables.table());
    for (const PolicyBudget& budget : Allocate(tables.table(), ranking, step / 4)) {
      const auto at = std::ranges::find(tables.table().policies, budget.policy);
      n_seeds[static_cast<std::size_t>(at - tables.table().policies.begin())] += budget.n_more;
    }
  }
}

TEST(ManyPolicies, AllocationNeedsThirtyPerCentFewerEpisodesForTheSameLetters) {
  const int n_repetitions = TimesOr(200, 4);
  const std::vector<NamedWorld> worlds = {
      {"6 policies, one close pair", {.rates = {{0.2}, {0.35}, {0.5}, {0.65}, {0.8}, {0.88}}}},
      {"8 policies, 4 tasks",
       {.rates = {{0.1, 0.2, 0.3, 0.1},
                  {0.2, 0.3, 0.4, 0.2},
                  {0.3, 0.4, 0.5, 0.3},
                  {0.45, 0.5, 0.6, 0.45},
                  {0.55, 0.65, 0.7, 0.6},
                  {0.7, 0.75, 0.8, 0.75},
                  {0.85, 0.85, 0.9, 0.85},
                  {0.9, 0.9, 0.95, 0.9}},
        .of_seed = 0.3}},
      {"5 policies, two of them equal",
       {.rates = {{0.3}, {0.5}, {0.5}, {0.7}, {0.8}}, .of_seed = 0.3}},
  };
  for (const NamedWorld& each : worlds) {
    double uniform = 0.0;
    double allocated = 0.0;
    for (int i = 0; i < n_repetitions; ++i) {
      uniform += EpisodesUntilTold(each.world, static_cast<std::uint64_t>(i), false);
      allocated += EpisodesUntilTold(each.world, static_cast<std::uint64_t>(i), true);
    }
    std::printf("%-30s uniform %.0f, allocated %.0f episodes: %.0f %% fewer\n", each.name,
                uniform / n_repetitions, allocated / n_repetitions,
                100.0 * (1.0 - allocated / uniform));
    EXPECT_LE(allocated, (IsLong() ? 0.7 : 0.75) * uniform) << each.name;
  }
}

struct PairsOnTasks {
  double n_true = 0.0;       // pairs that differ on a task, and are named
  double share_false = 0.0;  // of the named ones
};

PairsOnTasks NamedOnTasks(const World& world, const SuiteTable& table) {
  PairsOnTasks named;
  double n = 0.0;
  for (const SuitePair& pair : RankingOf(table).on_tasks) {
    if (!pair.ranked.is_different) continue;
    const PairEvidence& evidence = pair.ranked.evidence;
    const double rate_a = world.rates[pair.ranked.a][pair.task];
    const double rate_b = world.rates[pair.ranked.b][pair.task];
    const bool is_true =
        evidence.log_a_better > evidence.log_b_better ? rate_a > rate_b : rate_a < rate_b;
    named.n_true += is_true ? 1.0 : 0.0;
    n += 1.0;
  }
  named.share_false = n > 0.0 ? 1.0 - named.n_true / n : 0.0;
  return named;
}

TEST(ManyPolicies, ABudgetTellsMorePairsApartThanTheSameNumberForEachCell) {
  const int n_repetitions = TimesOr(2000, 20);
  const std::vector<NamedWorld> worlds = {
      {"4 policies, 4 tasks, differences of 0 to 70 points",
       {.rates = {{0.2, 0.9, 0.5, 0.1},
                  {0.3, 0.9, 0.6, 0.5},
                  {0.6, 0.5, 0.7, 0.6},
                  {0.9, 0.3, 0.9, 0.7}},
        .of_seed = 0.3}},
      {"2 pairs of equal policies on 3 tasks",
       {.rates = {{0.8, 0.7, 0.6}, {0.8, 0.7, 0.6}, {0.5, 0.4, 0.3}, {0.5, 0.4, 0.3}},
        .of_seed = 0.3}},
      {"4 equal policies on 3 tasks", {.rates = SameRates(4, {0.7, 0.5, 0.3}), .of_seed = 0.5}},
  };
  for (const NamedWorld& each : worlds) {
    const int n_cells = static_cast<int>(each.world.rates.size() * each.world.rates[0].size());
    const int n_seeds = 60;  // of a cell, without a budget
    PairsOnTasks uniform;
    PairsOnTasks budget;
    double covered = 0.0;
    for (int i = 0; i < n_repetitions; ++i) {
      TableStream tables(each.world, static_cast<std::uint64_t>(i));
      tables.Fill(AllHave(each.world, n_seeds * n_cells));
      SuiteTable table = tables.table();
      const BudgetRound round = NextRound(table, n_seeds * n_cells);
      ASSERT_TRUE(round.is_over);
      SuiteTable same = table;
      for (SuiteCell& cell : same.cells) cell.successes.resize(n_seeds);
      for (std::size_t k = 0; k < table.cells.size(); ++k) {
        SuiteCell& cell = table.cells[k];
        cell.successes.resize(static_cast<std::size_t>(round.n_seeds[k]));
        const auto n_success = static_cast<int>(std::ranges::count(cell.successes, '1'));
        const RateInterval rate = WilsonInterval(n_success, round.n_seeds[k]);
        const std::size_t n_tasks = each.world.rates[0].size();
        const double truth = each.world.rates[k / n_tasks][k % n_tasks];
        covered += rate.low <= truth && truth <= rate.high ? 1.0 : 0.0;
      }
      const PairsOnTasks a = NamedOnTasks(each.world, same);
      const PairsOnTasks b = NamedOnTasks(each.world, table);
      uniform.n_true += a.n_true / n_repetitions;
      uniform.share_false += a.share_false / n_repetitions;
      budget.n_true += b.n_true / n_repetitions;
      budget.share_false += b.share_false / n_repetitions;
    }
    std::printf(
        "%-55s pairs told apart: %.2f of %d episodes each, %.2f with a budget; false %.2f and %.2f "
        "%%; intervals cover %.1f %%\n",
        each.name, uniform.n_true, n_seeds, budget.n_true, 100.0 * uniform.share_false,
        100.0 * budget.share_false, 100.0 * covered / n_cells / n_repetitions);
    const double margin = 3.0 * std::sqrt(0.05 * 0.95 / n_repetitions);
    EXPECT_LE(budget.share_false, 0.05 + margin) << each.name;
    EXPECT_GE(budget.n_true, uniform.n_true) << each.name;
  }
}

TEST(RealRates, CoverAndAreShorterThanThoseOfRealRolloutsAlone) {
  const int n_repetitions = TimesOr(10'000, 1000);
  struct Robot {
    double real, simulated;
    double agreement;  // 0: independent, 1: as equal as the rates allow
  };
  RandomStream random(77, StreamId::kEnvNoise);
  const auto draw = [&](double rate) { return random.UniformDouble() < rate; };
  for (const int n_real : {20, 50}) {
    for (const Robot& robot : {Robot{0.5, 0.5, 0.0}, Robot{0.5, 0.5, 0.8}, Robot{0.7, 0.6, 0.8},
                               Robot{0.7, 0.9, 0.8}, Robot{0.9, 0.9, 0.9}, Robot{0.3, 0.5, 0.95},
                               Robot{0.95, 0.9, 0.5}, Robot{0.1, 0.3, 0.9}}) {
      const double independent = robot.real * robot.simulated;
      const double both =
          independent + robot.agreement * (std::min(robot.real, robot.simulated) - independent);
      int n_covered = 0;
      double width = 0.0;
      double width_alone = 0.0;
      for (int i = 0; i < n_repetitions; ++i) {
        PairCounts counts;
        for (int k = 0; k < n_real; ++k) {
          const bool simulated = draw(robot.simulated);
          const double rate =
              simulated ? both / robot.simulated : (robot.real - both) / (1.0 - robot.simulated);
          counts.Add(simulated, draw(rate));
        }
        int n_success = counts.n_success_a();
        for (int k = 0; k < 500; ++k) n_success += draw(robot.simulated) ? 1 : 0;
        const RealRate found = BoundRealRate(counts, n_success, n_real + 500);
        n_covered += found.low <= robot.real && robot.real <= found.high ? 1 : 0;
        width += (found.high - found.low) / n_repetitions;
        width_alone += (found.real_alone.high - found.real_alone.low) / n_repetitions;
      }
      const double coverage = static_cast<double>(n_covered) / n_repetitions;
      std::printf(
          "%d real, rate %.2f, simulated %.2f, agreement %.2f: covers %.2f %%, width %.3f, "
          "alone %.3f (%+.0f %%)\n",
          n_real, robot.real, robot.simulated, robot.agreement, 100.0 * coverage, width,
          width_alone, 100.0 * (width / width_alone - 1.0));
      EXPECT_GE(coverage, 0.95 - (IsLong() ? 0.0 : 0.015));
      // hardly any success or failure to predict: not shorter
      const bool is_useful =
          robot.agreement >= 0.8 && std::abs(robot.real - 0.5) < 0.4 + 1e-9 && robot.real > 0.2;
      EXPECT_LE(width, width_alone * (is_useful ? 0.97 : 1.06));
    }
  }
}

}  // namespace
}  // namespace dp_bench::compare
