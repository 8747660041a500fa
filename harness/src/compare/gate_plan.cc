#include "compare/gate_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "compare/graded_score.h"
#include "compare/pairing.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/random_streams.h"

namespace dp_bench::compare {
namespace {

using Json = nlohmann::json;

constexpr int kPlannedGates = 500;

struct PlannedEpisode {
  double score = 0.0;
  bool is_success = false;
};

// Recorded episodes, [2][seeds]. Either side may be the old one.
struct Recording {
  std::array<std::vector<PlannedEpisode>, 2> sides;
  std::vector<double> failures;  // the scores of the episodes that failed
  double same_seed_share = 1.0;  // of the pairs; the others are of two seeds

  std::size_t n_seeds() const { return sides[0].size(); }

  double SuccessRate() const {
    const std::size_t n = 2 * n_seeds();
    return static_cast<double>(n - failures.size()) / static_cast<double>(n);
  }
};

Recording Record(const run::RunFolder& baseline, const run::RunFolder* candidate) {
  const run::RunFolder& second = candidate != nullptr ? *candidate : baseline;
  const bool is_paired = candidate == nullptr || WhyUnpaired(baseline, second).empty();
  const PairedOutcomes outcomes =
      is_paired ? PairBySeed(baseline.episodes, second.episodes) : PairInOrder(baseline, second);
  if (outcomes.pairs.empty()) {
    throw DataError("{} and {} have no test episodes of the same seeds", baseline.path.string(),
                    second.path.string());
  }
  Recording recording;
  const auto add = [&](int side, const run::RunFolder& run, const run::EpisodeRecord& record) {
    const double score = GradedScore(baseline, run, record);
    recording.sides.at(side).push_back({.score = score, .is_success = record.success});
    if (!record.success) recording.failures.push_back(score);
  };
  for (const EpisodePair& pair : outcomes.pairs) {
    add(0, baseline, pair.a);
    add(1, second, pair.b);
  }
  return recording;
}

// Of the scores of a seed, with either side as the first: their covariance over their variance.
double CorrelationOf(const Recording& recording) {
  double sum = 0.0;
  for (const auto& side : recording.sides) {
    for (const PlannedEpisode& episode : side) sum += episode.score;
  }
  const double mean = sum / (2.0 * static_cast<double>(recording.n_seeds()));
  double covariance = 0.0;
  double variance = 0.0;
  for (std::size_t i = 0; i < recording.n_seeds(); ++i) {
    const double a = recording.sides[0][i].score - mean;
    const double b = recording.sides[1][i].score - mean;
    covariance += a * b;
    variance += (a * a + b * b) / 2.0;
  }
  return variance > 0.0 ? covariance / variance : 0.0;
}

void RequirePossibleDrops(const run::RunFolder& baseline, double success_rate,
                          std::span<const double> drops) {
  if (success_rate <= 0.0) {
    throw UsageError("{}: no episode was successful, so the success rate cannot drop",
                     baseline.path.string());
  }
  for (const double drop : drops) {
    if (drop > 0.0 && drop <= success_rate) continue;
    const std::string why =
        drop <= 0.0 ? "no number of pairs shows a drop of 0 or less; give the smallest drop that "
                      "the gate must not miss, such as 0.05 for 5 points"
        : drop >= 1.0
            ? "drops are shares of 1: 5 points are 0.05"
            : fmt::format("the success rate is {:.3g}, so give at most that", success_rate);
    throw UsageError("--plan: a drop of {:.6g} cannot be planned: {}", drop, why);
  }
}

// All of `drops`, or of kUsualDrops those that are possible.
std::vector<double> AskedDrops(std::vector<double> drops, double success_rate) {
  const auto is_possible = [success_rate](double drop) { return drop <= success_rate; };
  if (std::ranges::equal(drops, kUsualDrops) && std::ranges::any_of(drops, is_possible)) {
    std::erase_if(drops, std::not_fn(is_possible));
  }
  return drops;
}

// new minus old score of a pair in which the drop was planted.
class PlantedChange {
 public:
  /// `failing_share`: of the new successes that become failures.
  PlantedChange(const Recording* recording, double failing_share)
      : recording_(recording), failing_share_(failing_share) {}

  double Draw(RandomStream* random) const {
    const auto n_seeds = static_cast<std::uint32_t>(recording_->n_seeds());
    const std::uint32_t seed = random->UniformInt(n_seeds);
    const bool has_same_seed = random->UniformDouble() < recording_->same_seed_share;
    const std::uint32_t new_seed = has_same_seed ? seed : random->UniformInt(n_seeds);
    const std::uint32_t old_side = random->NextU32() & 1U;
    const double before = recording_->sides.at(old_side)[seed].score;
    const PlannedEpisode& now = recording_->sides.at(1 - old_side)[new_seed];
    if (!now.is_success || random->UniformDouble() >= failing_share_) return now.score - before;
    return DrawFailure(random) - before;
  }

  /// How much the mean falls.
  double MeanDrop() const {
    double successes = 0.0;
    for (const auto& side : recording_->sides) {
      for (const PlannedEpisode& episode : side) {
        if (episode.is_success) successes += episode.score - MeanFailure();
      }
    }
    return failing_share_ * successes / (2.0 * static_cast<double>(recording_->n_seeds()));
  }

 private:
  double DrawFailure(RandomStream* random) const {
    const std::vector<double>& failures = recording_->failures;
    if (failures.empty()) return 0.0;
    return failures[random->UniformInt(static_cast<std::uint32_t>(failures.size()))];
  }

  double MeanFailure() const {
    const std::vector<double>& failures = recording_->failures;
    if (failures.empty()) return 0.0;
    return std::accumulate(failures.begin(), failures.end(), 0.0) /
           static_cast<double>(failures.size());
  }

  const Recording* recording_;
  double failing_share_;
};

struct PlannedEnd {
  int n_until_fail = kMaxPlannedPairs + 1;  // if nothing ends the gate before
  bool has_passed = false;                  // before that, within max_pairs
};

// A test itself would end at a PASS.
PlannedEnd SimulateGate(const PlantedChange& change, const SequentialTestConfig& config,
                        const SequentialRule& rule, RandomStream random) {
  SequentialEvidence evidence(config);
  PlannedEnd end;
  for (int n = 1; n <= kMaxPlannedPairs; ++n) {
    const double drawn = change.Draw(&random);
    const bool is_lost = drawn < 0.0;
    const bool is_gained = drawn > 0.0;
    evidence.Add(is_lost, is_gained, drawn);
    if (n % config.block_size != 0) continue;
    const Verdict verdict = rule.Judge(evidence.Examine());
    if (verdict == Verdict::kPass && n <= config.max_pairs) end.has_passed = true;
    if (verdict != Verdict::kFail) continue;
    end.n_until_fail = n;
    break;
  }
  return end;
}

std::optional<int> QuantileOf(std::span<const int> sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  const int n = sorted[rank - 1];
  return n <= kMaxPlannedPairs ? std::optional(n) : std::nullopt;
}

PlannedDrop PlanDrop(const Recording& recording, double drop, const SequentialTestConfig& config) {
  const PlantedChange change(&recording, drop / recording.SuccessRate());
  const SequentialRule rule(config);
  PlannedDrop planned = {.drop = drop, .score_drop = change.MeanDrop()};
  std::vector<int> needed;
  int n_fail = 0;
  int n_pass = 0;
  for (int gate = 0; gate < kPlannedGates; ++gate) {
    // the same draws for every drop
    const RandomStream random(/*seed=*/0, core::kGatePlanStream, static_cast<std::uint64_t>(gate));
    const PlannedEnd end = SimulateGate(change, config, rule, random);
    needed.push_back(end.n_until_fail);
    n_pass += end.has_passed ? 1 : 0;
    n_fail += !end.has_passed && end.n_until_fail <= config.max_pairs ? 1 : 0;
  }
  planned.fail_rate = static_cast<double>(n_fail) / kPlannedGates;
  planned.pass_rate = static_cast<double>(n_pass) / kPlannedGates;
  std::ranges::sort(needed);
  planned.median = QuantileOf(needed, 0.5);
  planned.quantile_90 = QuantileOf(needed, 0.9);
  if (needed.back() <= kMaxPlannedPairs) {
    planned.mean = std::accumulate(needed.begin(), needed.end(), 0.0) / kPlannedGates;
  }
  return planned;
}

}  // namespace

GatePlan PlanGate(const run::RunFolder& baseline, const run::RunFolder* candidate,
                  const SequentialTestConfig& config, const GatePlanQuestion& question) {
  if (!(question.correlation >= 0.0 && question.correlation < 1.0)) {
    throw UsageError("--correlation is {:.6g}; expected at least 0 and less than 1",
                     question.correlation);
  }
  Recording recording = Record(baseline, candidate);
  GatePlan plan = {.task = run::TaskTitle(baseline),
                   .config = config,
                   .n_episodes = static_cast<int>(recording.n_seeds()),
                   .success_rate = recording.SuccessRate(),
                   .correlation = question.correlation,
                   .is_measured = candidate != nullptr,
                   .n_gates = kPlannedGates};
  plan.config.decided_by = baseline.decided_by;
  if (candidate != nullptr) {
    plan.correlation = CorrelationOf(recording);
    plan.has_equal_pairs = std::ranges::equal(recording.sides[0], recording.sides[1], {},
                                              &PlannedEpisode::score, &PlannedEpisode::score);
  } else {
    recording.same_seed_share = question.correlation;
  }
  const std::vector<double> drops = AskedDrops(question.drops, plan.success_rate);
  RequirePossibleDrops(baseline, plan.success_rate, drops);
  for (const double drop : drops) {
    plan.drops.push_back(PlanDrop(recording, drop, plan.config));
  }
  return plan;
}

Json ToJson(const std::vector<GatePlan>& plans) {
  Json tasks = Json::array();
  for (const GatePlan& plan : plans) {
    Json drops = Json::array();
    for (const PlannedDrop& planned : plan.drops) {
      drops.push_back({{"drop", planned.drop},
                       {"score_drop", planned.score_drop},
                       {"median", core::OrNull(planned.median)},
                       {"mean", core::OrNull(planned.mean)},
                       {"quantile_90", core::OrNull(planned.quantile_90)},
                       {"fail_rate", planned.fail_rate},
                       {"pass_rate", planned.pass_rate}});
    }
    tasks.push_back({{"task", plan.task},
                     {"config", plan.config},
                     {"n_episodes", plan.n_episodes},
                     {"success_rate", plan.success_rate},
                     {"correlation", plan.correlation},
                     {"is_measured", plan.is_measured},
                     {"has_equal_pairs", plan.has_equal_pairs},
                     {"n_gates", plan.n_gates},
                     {"drops", drops}});
  }
  return {{"format", "dp_bench.gate_plan.v1"},
          {"max_planned_pairs", kMaxPlannedPairs},
          {"tasks", tasks}};
}

}  // namespace dp_bench::compare
