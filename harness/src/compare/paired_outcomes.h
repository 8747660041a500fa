// Episodes of two runs on the same seeds. Both runs start such an episode in the same state and
// with the same policy noise, so most of the luck in a success rate cancels.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "run/episode_record.h"

namespace dp_bench::compare {

/// The episodes of one seed. A is the reference run, B the candidate.
struct EpisodePair {
  run::EpisodeRecord a;
  run::EpisodeRecord b;

  std::uint64_t seed() const { return a.seed; }
  bool is_discordant() const { return a.success != b.success; }
};

/// The number of seeds per pair of outcomes.
struct PairCounts {
  int both_succeed = 0;
  int only_a = 0;
  int only_b = 0;
  int neither = 0;

  void Add(bool a_succeeded, bool b_succeeded);

  int n() const { return both_succeed + only_a + only_b + neither; }
  int n_discordant() const { return only_a + only_b; }
  int n_success_a() const { return both_succeed + only_a; }
  int n_success_b() const { return both_succeed + only_b; }
};

struct PairedOutcomes {
  std::vector<EpisodePair> pairs;  // in the order of A's seed list
  PairCounts counts;
  std::vector<std::uint64_t> only_in_a;  // seeds that B did not run
  std::vector<std::uint64_t> only_in_b;
};

/// Pairs the episodes of one split by their seed. A failed episode counts as not successful; none
/// is left out. Throws Error{kData} if a run has two episodes with the same seed.
PairedOutcomes PairBySeed(std::span<const run::EpisodeRecord> a,
                          std::span<const run::EpisodeRecord> b, std::string_view split = "test");

/// Pairs the k-th episode of one run with the k-th of the other, for runs whose seeds are unknown.
/// The records get k as their seed. Tests on independent pairs stay valid; they only lose power.
PairedOutcomes PairInOrder(std::span<const run::EpisodeRecord> a,
                           std::span<const run::EpisodeRecord> b, std::string_view split = "test");

/// Score of B minus score of A, one per pair.
std::vector<double> ScoreDifferences(const PairedOutcomes& outcomes);

}  // namespace dp_bench::compare
