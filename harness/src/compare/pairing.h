// Whether two runs may be compared, which of their episodes belong together, and how these ended.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run/episode_record.h"
#include "run/run_folder.h"

namespace dp_bench::compare {

/// A field that differs but must agree.
struct Mismatch {
  std::string field;  // "env.params.task"
  std::string a;      // JSON, or "absent"
  std::string b;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Mismatch, field, a, b)

/// Compares the env section of config.json, env_runner.max_steps, and the version of the env plugin
/// (which fixes its success criterion). A file that either folder lacks is not compared. Throws
/// Error{kData} if config.json or manifest.json is not JSON.
std::vector<Mismatch> FindTaskMismatches(const run::RunFolder& a, const run::RunFolder& b);

/// That version; empty if the folder does not say it. Throws as FindTaskMismatches.
std::string EnvVersionOf(const run::RunFolder& folder);

/// Why the episodes of two results of other programs are not of the same tasks; empty if they are,
/// or if each is of one task at most. The seeds of several tasks count on from task to task, so
/// equal ones would be of different tasks.
std::string WhyOtherTasks(const run::RunFolder& a, const run::RunFolder& b);

/// Why equal seeds of the two need not mean equal starts; empty if they do. Seeds that different
/// programs numbered are not the same, and some programs write none. Outcomes that are not a
/// function of the seed (run/manifest.h) cannot be paired either, nor those of WhyOtherTasks.
std::string WhyUnpaired(const run::RunFolder& a, const run::RunFolder& b);

/// For a user who knows that equal seeds mean equal starts, or equal places where a file has none.
void AssumeSameSeeds(std::vector<run::RunFolder>* folders);

/// FindTaskMismatches, and the seeds of the split "test" if the two can be paired and share none.
std::vector<Mismatch> FindMismatches(const run::RunFolder& a, const run::RunFolder& b);

/// Facts that do not forbid a comparison but that the user should know: missing files, or an env or
/// policy plugin of the same name from another build.
std::vector<std::string> ComparabilityNotes(const run::RunFolder& a, const run::RunFolder& b);

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
  void Add(const PairCounts& others);

  int n() const { return both_succeed + only_a + only_b + neither; }
  int n_discordant() const { return only_a + only_b; }
  int n_success_a() const { return both_succeed + only_a; }
  int n_success_b() const { return both_succeed + only_b; }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PairCounts, both_succeed, only_a, only_b, neither)

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

/// Throws Error{kData} naming the file if a run has two test episodes with the same seed.
void RequireDistinctSeeds(const run::RunFolder& run);

/// The number of the task of an episode; 0 for a run of one task.
std::uint64_t TaskOf(const run::RunFolder& run, const run::EpisodeRecord& record);

/// The test episodes. Those of several tasks (RunFolder::tasks) come in turns: the first of
/// each task, then the second of each. A test that stops early has then seen all tasks.
std::vector<run::EpisodeRecord> InTurns(const run::RunFolder& run);

/// Pairs the k-th episode of each task of one run with the k-th of the other, for runs whose seeds
/// are unknown; the pairs are in turns. Runs of different tasks are paired as one list each. Tests
/// on independent pairs stay valid; they lose power only if the outcomes on equal seeds would have
/// been correlated.
PairedOutcomes PairInOrder(const run::RunFolder& a, const run::RunFolder& b);

/// Score of B minus score of A, one per pair.
std::vector<double> ScoreDifferences(const PairedOutcomes& outcomes);

/// ". Its policy's server was the reason for 3; 5 of the other 7 were successful"; empty if it was
/// the reason for none. Continues a sentence about episodes that broke.
std::string PolicyFaultsText(const run::SplitSummary& summary);

}  // namespace dp_bench::compare
