#include "compare/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/errors.h"
#include "run/run_files.h"

namespace dp_bench::compare {
namespace {

ComparedRun Describe(std::size_t index, run::RunFolder files, RateMethod method) {
  ComparedRun run = {.label = std::string(1, static_cast<char>('A' + index)),
                     .files = std::move(files)};
  run.test = run::Summarize(run.files.episodes, "test");
  const auto interval = method == RateMethod::kWilson ? WilsonInterval : ClopperPearsonInterval;
  run.success_rate = interval(run.test.n_success, run.test.n_episodes, kConfidence);
  return run;
}

std::vector<double> TestScores(const run::RunFolder& run) {
  std::vector<double> scores;
  for (const run::EpisodeRecord& record : run.episodes) {
    if (record.split == "test") scores.push_back(record.score);
  }
  return scores;
}

// Success of A minus success of B.
std::vector<double> SuccessDifferences(const run::RunFolder& a, const run::RunFolder& b) {
  const PairedOutcomes outcomes =
      WhyUnpaired(a, b).empty() ? PairBySeed(a.episodes, b.episodes) : compare::PairInOrder(a, b);
  std::vector<double> differences;
  for (const EpisodePair& pair : outcomes.pairs) {
    differences.push_back((pair.a.success ? 1.0 : 0.0) - (pair.b.success ? 1.0 : 0.0));
  }
  return differences;
}

CandidateComparison CompareUnpaired(const ComparedRun& a, const ComparedRun& b, double difference) {
  CandidateComparison result = {.why_unpaired = WhyUnpaired(a.files, b.files)};
  const RateInterval rate_a = WilsonInterval(a.test.n_success, a.test.n_episodes);
  const RateInterval rate_b = WilsonInterval(b.test.n_success, b.test.n_episodes);
  result.success_rate = NewcombeInterval(rate_a, rate_b);
  result.p_exact = FisherExactP(rate_a, rate_b);
  result.score = WelchInterval(TestScores(a.files), TestScores(b.files));
  const double worse = rate_a.rate - difference;
  const double better = std::min(1.0, rate_a.rate + difference);
  result.n_to_detect = EpisodesToDetect(rate_a.rate, worse >= 0.0 ? worse : better);
  result.mismatches = FindTaskMismatches(a.files, b.files);
  return result;
}

CandidateComparison ComparePaired(const run::RunFolder& a, const run::RunFolder& b,
                                  double difference) {
  CandidateComparison result;
  result.outcomes = PairBySeed(a.episodes, b.episodes);
  const PairCounts& counts = result.outcomes.counts;
  if (counts.n() == 0) {
    throw DataError(
        "{} and {} share no test seed, so there is nothing to compare; evaluate both with the same "
        "env_runner.test_start_seed",
        a.path.string(), b.path.string());
  }
  result.success_rate = NewcombePairedInterval(counts);
  result.p_exact = McNemarExactP(counts);
  result.p_mid = McNemarMidP(counts);
  result.score = StudentInterval(ScoreDifferences(result.outcomes));
  // a difference cannot exceed the share of discordant seeds
  result.discordant_rate = std::max(difference, EstimateDiscordantRate(counts));
  result.n_to_detect = PairsToDetect({.difference = difference,
                                      .discordant_rate = result.discordant_rate,
                                      .alpha = 0.025,
                                      .power = 0.8});
  result.mismatches = FindMismatches(a, b);
  return result;
}

void AddNotes(RunComparison* comparison) {
  std::vector<std::string>& notes = comparison->notes;
  for (const ComparedRun& run : comparison->runs) {
    if (!run.files.manifest.empty()) continue;  // a page of the run itself shows them
    for (const std::string& note : run.files.notes) notes.push_back(run.label + ": " + note);
  }
  for (const ComparedRun& run : comparison->runs) {
    if (run.test.n_failed == 0) continue;
    notes.push_back(fmt::format("{} of {}'s episodes broke; they count as not successful{}",
                                run.test.n_failed, run.label, PolicyFaultsText(run.test)));
  }
  for (const ComparedRun& run : comparison->runs) {
    const std::optional<run::SeedUse>& seeds = run.files.seeds;
    if (!seeds) continue;
    if (seeds->n_demonstrated() > 0) {
      notes.push_back(
          fmt::format("{} was trained on episodes with {} of its test seeds: it looks "
                      "better than it is",
                      run.label, seeds->n_demonstrated()));
    }
    if (seeds->n_shared() == 0) continue;
    notes.push_back(
        fmt::format("{}'s training was evaluated on {} of its test seeds: if it was "
                    "chosen by its score there, it looks better than it is",
                    run.label, seeds->n_shared()));
  }
  if (std::ranges::any_of(comparison->runs, [&](const ComparedRun& run) {
        return run.files.seed_origin != comparison->runs[0].files.seed_origin;
      })) {
    notes.push_back("each program defines its own score: compare the success rates");
  }
  for (std::size_t i = 1; i < comparison->runs.size(); ++i) {
    for (std::string& note :
         ComparabilityNotes(comparison->runs[0].files, comparison->runs[i].files)) {
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) {
        notes.push_back(std::move(note));
      }
    }
  }
  if (comparison->runs.size() < 3) return;
  const auto best = std::ranges::max_element(
      comparison->runs, {}, [](const ComparedRun& run) { return run.success_rate.rate; });
  notes.push_back(fmt::format(
      "{}, the best of {} runs, looks better than it is, because it was chosen by these numbers: "
      "report its success rate on other seeds",
      best->label, comparison->runs.size()));
}

// Evidence about all pairs, and from it letters and ranks.
void Rank(RunComparison* comparison) {
  std::vector<ComparedRun>& runs = comparison->runs;
  std::vector<double> rates;
  for (const ComparedRun& run : runs) rates.push_back(run.success_rate.rate);
  for (std::size_t a = 0; a < runs.size(); ++a) {
    for (std::size_t b = a + 1; b < runs.size(); ++b) {
      comparison->pairs.push_back(
          {.a = a,
           .b = b,
           .evidence = EvidenceOf(SuccessDifferences(runs[a].files, runs[b].files))});
    }
  }
  NameDifferences(comparison->pairs);
  const std::vector<std::string> letters = LettersByRate(rates, comparison->pairs);
  const std::vector<RankInterval> ranks = RankIntervals(runs.size(), comparison->pairs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].letters = letters[i];
    runs[i].rank = ranks[i];
  }
}

}  // namespace

run::RunFolder RequireComparable(run::RunFolder run) {
  run::RequireFinished(run);
  if (run::Summarize(run.episodes, "test").n_episodes == 0) {
    throw DataError(
        "{} has no test episodes; expected the folder of a run or of an evaluation, with {}",
        run.path.string(), run::kEpisodesFile);
  }
  RequireDistinctSeeds(run);
  return run;
}

RunComparison CompareRuns(std::vector<run::RunFolder> runs, const CompareOptions& options) {
  DPB_ASSERT(runs.size() >= 2 && runs.size() <= kMaxComparedRuns);
  RunComparison comparison = {.options = options};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    comparison.runs.push_back(Describe(i, std::move(runs[i]), options.rate_method));
  }
  std::vector<double> p_values;
  const ComparedRun& first = comparison.runs[0];
  for (std::size_t i = 1; i < comparison.runs.size(); ++i) {
    const ComparedRun& run = comparison.runs[i];
    comparison.candidates.push_back(WhyUnpaired(first.files, run.files).empty()
                                        ? ComparePaired(first.files, run.files, options.difference)
                                        : CompareUnpaired(first, run, options.difference));
    p_values.push_back(comparison.candidates.back().p_exact);
  }
  const std::vector<double> adjusted = HolmAdjusted(p_values);
  for (std::size_t i = 0; i < adjusted.size(); ++i) comparison.candidates[i].p_holm = adjusted[i];
  if (comparison.runs.size() >= options.n_for_letters) Rank(&comparison);
  AddNotes(&comparison);
  return comparison;
}

}  // namespace dp_bench::compare
