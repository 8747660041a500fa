// Which policies of a suite differ, on each task and over all tasks.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compare/pairing.h"
#include "compare/policy_ranking.h"
#include "compare/suite_table.h"

namespace dp_bench::compare {

/// Two policies over all tasks that both have, or on one task.
struct SuitePair {
  RankedPair ranked;      // indices into SuiteTable::policies
  double difference = 0;  // success rate of A minus that of B: the mean over tasks, in [-1, 1]
  int n_seeds = 0;        // test seeds of each task that both have; with several tasks, the least
  /// Pairs of episodes with the same task and test seed: each training of A with each of B.
  PairCounts counts;
  std::size_t task = 0;  // of SuiteRanking::on_tasks: an index into SuiteTable::tasks
};

/// What is shown about a policy.
struct SuitePlace {
  std::string policy;
  std::string task;  // empty: over all tasks
  std::string letters;
  RankInterval rank;  // among the policies with a place here
};

struct SuiteRanking {
  std::vector<SuitePair> pairs;     // of policies that have a cell, over all tasks
  std::vector<SuitePair> on_tasks;  // those of the first task, and so on
  std::vector<SuitePlace> places;   // over all tasks first, then task by task

  /// None if the policy lacks cells, of tasks or training seeds, or if there is no other policy.
  const SuitePlace* PlaceOf(const std::string& policy, const std::string& task = "") const;
};

/// Two policies are compared on the tasks and test seeds that both have. The unit is a test seed:
/// all its episodes, of all tasks and training seeds, are one difference. So neither tasks nor
/// trainings need to be independent. With different numbers of trainings, the evidence is from as
/// many of each, in turns, because it is only valid for differences that are symmetric. Tasks count
/// alike: if they have different numbers of seeds, the first ones of each are used.
///
/// Tasks that were played in several versions of their env are left out, and then there are no
/// places over all tasks.
///
/// Letters are from e-BH at 5 %, once for the pairs over all tasks and once for all pairs on all
/// tasks; ranks have 95 %, for each task by itself.
SuiteRanking RankingOf(const SuiteTable& table);

/// {pairs, places}
nlohmann::json ToJson(const SuiteTable& table, const SuiteRanking& ranking);

}  // namespace dp_bench::compare
