#include "compare/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dp_bench/error.h"

namespace dp_bench {
namespace {

ComparedRun Describe(std::size_t index, RunFolder files) {
  ComparedRun run = {.label = std::string(1, static_cast<char>('A' + index)),
                     .files = std::move(files)};
  run.test = Summarize(run.files.episodes, "test");
  run.success_rate = WilsonInterval(run.test.n_success, run.test.n_episodes);
  return run;
}

CandidateComparison Compare(const RunFolder& a, const RunFolder& b, double difference) {
  CandidateComparison result;
  result.outcomes = PairBySeed(a.episodes, b.episodes);
  const PairCounts& counts = result.outcomes.counts;
  if (counts.n() == 0) {
    throw Error(ErrorCode::kData,
                fmt::format("{} and {} share no test seed, so there is nothing to compare; "
                            "evaluate both with the same env_runner.test_start_seed",
                            a.path.string(), b.path.string()));
  }
  result.success_rate = NewcombePairedInterval(counts);
  result.p_exact = McNemarExactP(counts);
  result.p_mid = McNemarMidP(counts);
  result.score = StudentInterval(ScoreDifferences(result.outcomes));
  // a difference cannot be larger than the share of seeds that make it
  result.discordant_rate = std::max(difference, EstimateDiscordantRate(counts));
  result.pairs_to_detect = PairsToDetect({.difference = difference,
                                          .discordant_rate = result.discordant_rate,
                                          .alpha = 0.025,
                                          .power = 0.8});
  result.mismatches = FindMismatches(a, b);
  return result;
}

void AddNotes(RunComparison* comparison) {
  std::vector<std::string>& notes = comparison->notes;
  for (const ComparedRun& run : comparison->runs) {
    if (run.test.n_failed == 0) continue;
    notes.push_back(fmt::format("{} of {}'s episodes broke; they count as not successful",
                                run.test.n_failed, run.label));
  }
  for (std::size_t i = 1; i < comparison->runs.size(); ++i) {
    for (std::string& note :
         ComparabilityNotes(comparison->runs[0].files, comparison->runs[i].files)) {
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) {
        notes.push_back(std::move(note));
      }
    }
  }
  if (comparison->runs.size() > 2) {
    notes.push_back(
        "the best of several runs owes a part of its lead to luck: choose it here, and report its "
        "success rate on other seeds");
  }
}

}  // namespace

std::vector<RunFolder> ReadRunsToCompare(std::span<const std::filesystem::path> folders) {
  std::vector<RunFolder> runs;
  for (const std::filesystem::path& path : folders) {
    runs.push_back(ReadRunFolder(path));
    const std::vector<EpisodeRecord>& episodes = runs.back().episodes;
    if (Summarize(episodes, "test").n_episodes == 0) {
      throw Error(ErrorCode::kData,
                  fmt::format("{} has no test episodes; wanted is the folder of a run or of an "
                              "evaluation, with episodes.jsonl",
                              path.string()));
    }
    try {
      PairBySeed(episodes, episodes);
    } catch (Error& fault) {
      fault.AddContext("in " + (path / "episodes.jsonl").string());
      throw;
    }
  }
  return runs;
}

RunComparison CompareRuns(std::vector<RunFolder> folders, double difference) {
  DPB_ASSERT(folders.size() >= 2 && folders.size() <= kMaxComparedRuns);
  RunComparison comparison = {.difference = difference};
  for (std::size_t i = 0; i < folders.size(); ++i) {
    comparison.runs.push_back(Describe(i, std::move(folders[i])));
  }
  std::vector<double> p_values;
  for (std::size_t i = 1; i < comparison.runs.size(); ++i) {
    comparison.candidates.push_back(
        Compare(comparison.runs[0].files, comparison.runs[i].files, difference));
    p_values.push_back(comparison.candidates.back().p_exact);
  }
  const std::vector<double> adjusted = HolmAdjusted(p_values);
  for (std::size_t i = 0; i < adjusted.size(); ++i) comparison.candidates[i].p_holm = adjusted[i];
  AddNotes(&comparison);
  return comparison;
}

}  // namespace dp_bench
