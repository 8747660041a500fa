#include "compare/paired_outcomes.h"

#include <fmt/format.h>

#include <map>

#include "dp_bench/error.h"

namespace dp_bench::compare {
namespace {

using RecordBySeed = std::map<std::uint64_t, const run::EpisodeRecord*>;

RecordBySeed IndexSplit(std::span<const run::EpisodeRecord> records, std::string_view split,
                        std::string_view run) {
  RecordBySeed by_seed;
  for (const run::EpisodeRecord& record : records) {
    if (record.split != split) continue;
    if (by_seed.emplace(record.seed, &record).second) continue;
    throw Error(ErrorCode::kData,
                fmt::format("the {} run has two {} episodes of seed {}; episodes are paired by "
                            "seed, so each may occur once: remove one row of episodes.jsonl, or "
                            "evaluate again",
                            run, split, record.seed));
  }
  return by_seed;
}

}  // namespace

void PairCounts::Add(bool a_succeeded, bool b_succeeded) {
  if (a_succeeded) {
    ++(b_succeeded ? both_succeed : only_a);
  } else {
    ++(b_succeeded ? only_b : neither);
  }
}

PairedOutcomes PairBySeed(std::span<const run::EpisodeRecord> a,
                          std::span<const run::EpisodeRecord> b, std::string_view split) {
  const RecordBySeed in_a = IndexSplit(a, split, "first");
  const RecordBySeed in_b = IndexSplit(b, split, "second");
  PairedOutcomes outcomes;
  for (const run::EpisodeRecord& record : a) {
    if (record.split != split) continue;
    const auto other = in_b.find(record.seed);
    if (other == in_b.end()) {
      outcomes.only_in_a.push_back(record.seed);
      continue;
    }
    outcomes.pairs.push_back({.a = record, .b = *other->second});
    outcomes.counts.Add(record.success, other->second->success);
  }
  for (const run::EpisodeRecord& record : b) {
    if (record.split == split && !in_a.contains(record.seed)) {
      outcomes.only_in_b.push_back(record.seed);
    }
  }
  return outcomes;
}

PairedOutcomes PairInOrder(std::span<const run::EpisodeRecord> a,
                           std::span<const run::EpisodeRecord> b, std::string_view split) {
  const auto numbered = [split](std::span<const run::EpisodeRecord> records) {
    std::vector<run::EpisodeRecord> episodes;
    for (const run::EpisodeRecord& record : records) {
      if (record.split != split) continue;
      episodes.push_back(record);
      episodes.back().seed = episodes.size() - 1;
    }
    return episodes;
  };
  return PairBySeed(numbered(a), numbered(b), split);
}

std::vector<double> ScoreDifferences(const PairedOutcomes& outcomes) {
  std::vector<double> differences;
  for (const EpisodePair& pair : outcomes.pairs) {
    differences.push_back(pair.b.score - pair.a.score);
  }
  return differences;
}

}  // namespace dp_bench::compare
