#include "compare/gate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "compare/graded_score.h"
#include "compare/success_over_time.h"
#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/sha256.h"
#include "core/shell.h"
#include "run/manifest.h"
#include "run/run_files.h"

namespace dp_bench::compare {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "dp_bench.baseline.v1";
constexpr const char* kDecidedBy = "decided_by";
constexpr const char* kSuccessStep = "success_step";
constexpr std::size_t kMaxBaselineBytes = std::size_t{16} << 20;

// What a baseline keeps of a test episode.
void VisitEpisode(const core::JsonFields& fields, run::EpisodeRecord* c) {
  fields("seed", &c->seed);
  fields("success", &c->success);
  fields("score", &c->score);
  fields("trace_hash", &c->trace_hash);
  fields("failure_reason", &c->failure_reason);
}

Json EnvPluginOf(const core::JsonView& manifest) {
  for (const core::JsonView& plugin : manifest.Elements("plugins")) {
    if (plugin.Get<std::string>("kind") == "env") return plugin.json();
  }
  return {};
}

// The settings of env_runner that affect outcomes, as far as the config has them.
Json RunnerOf(const core::JsonView& config) {
  const core::JsonView section = config.At("env_runner");
  Json runner = {{"max_steps", section.At("max_steps").json()}};
  for (const char* key : {"realtime", "realtime_latency_ms", "score_metric"}) {
    if (section.json().contains(key)) runner[key] = section.At(key).json();
  }
  // a world that waits is not noted, as in baselines that are older than the setting
  const core::JsonView all(section.json(), "env_runner");
  if (!all.Has("chunking")) return runner;
  const Json chunking = all.At("chunking").json();
  const bool is_random =
      chunking.value(Json::json_pointer("/latency/distribution"), "none") != "none";
  if (chunking.value("delay", 0) != 0) runner["chunking"]["delay"] = chunking["delay"];
  if (is_random) runner["chunking"]["latency"] = chunking["latency"];
  return runner;
}

// A baseline without outcomes would pass every candidate, or none.
void RequireOutcomes(const run::RunFolder& run) {
  run::RequireFinished(run);
  const run::SplitSummary summary = run::Summarize(run.episodes, "test");
  if (summary.n_episodes == 0) {
    throw DataError(
        "{} cannot become a baseline: it has no test episodes. Give the folder of a finished run "
        "or evaluation (dp_bench eval).",
        run.path.string());
  }
  RequireDistinctSeeds(run);
  if (summary.n_failed < summary.n_episodes) return;
  const auto broken = std::ranges::find_if(run.episodes, [](const run::EpisodeRecord& record) {
    return record.split == "test" && record.has_failed();
  });
  throw DataError(
      "{} cannot become a baseline: all of its {} test episodes broke, the first with: {}. Fix "
      "that and evaluate again.",
      run.path.string(), summary.n_episodes, *broken->failure_reason);
}

// What a baseline says about the run that it comes from.
Json HeadOf(const run::RunFolder& run) {
  if (!run.seed_origin.empty()) {
    return {{"format", kFormat},
            {"title", run::RunTitle(run)},
            {"seed_origin", run.seed_origin},
            {"has_seeds", run.has_seeds},
            {"tasks", run.tasks}};
  }
  const Json config_json = core::ParseJson(run.config, run::kConfigFile);
  const Json manifest_json = core::ParseJson(run.manifest, run::kManifestFile);
  const core::JsonView config(config_json, run::kConfigFile);
  Json head = {{"format", kFormat},
               {"title", run::RunTitle(run)},
               {"config",
                {{"policy", {{"plugin", config.At("policy").At("plugin").json()}}},
                 {"env", config.At("env").json()},
                 {"env_runner", RunnerOf(config)}}},
               {"env_plugin", EnvPluginOf(core::JsonView(manifest_json, run::kManifestFile))}};
  const std::string outcome_class = run::OutcomeClassOf(run.manifest);
  if (!outcome_class.empty()) head[run::kOutcomeClassKey] = outcome_class;
  if (const auto certificate = run::DeterminismOf(run.manifest)) {
    head[run::kDeterminismKey] = run::ToJson(*certificate);
  }
  return head;
}

// The inverse, without the title.
void ReadHead(const core::JsonView& head, run::RunFolder* run) {
  if (head.Has("seed_origin")) {
    run->seed_origin = head.Get<std::string>("seed_origin");
    run->has_seeds = head.Get<bool>("has_seeds");
    run->tasks = head.Get<std::vector<std::string>>("tasks");
    return;
  }
  run->config = head.At("config").json().dump();
  Json manifest = {{"plugins", Json::array({head.At("env_plugin").json()})}};
  if (const auto outcome_class = head.GetOptional<std::string>(run::kOutcomeClassKey)) {
    manifest[run::kOutcomeClassKey] = *outcome_class;
  }
  if (head.Has(run::kDeterminismKey)) {
    manifest[run::kDeterminismKey] = head.At(run::kDeterminismKey).json();
  }
  run->manifest = manifest.dump();
}

// What decides. Baselines of versions before 0.4 have no such field: success decided.
void ReadRule(const core::JsonView& head, run::RunFolder* run) {
  run->decided_by = head.GetOptional<std::string>(kDecidedBy).value_or(std::string(kBySuccess));
  if (std::ranges::find(kScores, run->decided_by) == kScores.end()) {
    head.At(kDecidedBy).Fail("expected one of {}", fmt::join(kScores, ", "));
  }
  if (run->decided_by != kByTime) return;
  run->horizon = head.Get<int>("horizon");
  if (run->horizon < 1) head.At("horizon").Fail("expected at least 1 step");
}

// By GateStatus.
using NamedExit = std::pair<std::string_view, int>;
constexpr std::array<NamedExit, 5> kStatuses = {
    {{"PASS", 0}, {"FAIL", 1}, {"INCONCLUSIVE", 3}, {"NOT COMPARABLE", 4}, {"INFRA", 5}}};

constexpr int kMinSignature = 8;         // episodes
constexpr double kMaxBrokenRate = 0.01;  // of a run's episodes

// One seed list must begin with the other. The counted seeds are then a complete beginning of both
// lists, and which seeds are present cannot depend on how their episodes ended.
std::vector<Mismatch> FindSeedMismatch(const std::vector<run::EpisodeRecord>& a,
                                       const std::vector<run::EpisodeRecord>& b) {
  const std::size_t n = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < n; ++i) {
    if (a[i].seed == b[i].seed) continue;
    return {
        {fmt::format("test seed {}", i + 1), std::to_string(a[i].seed), std::to_string(b[i].seed)}};
  }
  return {};
}

// The same for each task.
std::vector<Mismatch> FindSeedMismatch(const run::RunFolder& a, const run::RunFolder& b) {
  std::map<std::uint64_t, std::array<std::vector<run::EpisodeRecord>, 2>> by_task;
  for (const run::EpisodeRecord& record : InTurns(a))
    by_task[TaskOf(a, record)][0].push_back(record);
  for (const run::EpisodeRecord& record : InTurns(b))
    by_task[TaskOf(b, record)][1].push_back(record);
  for (const auto& [task, lists] : by_task) {
    std::vector<Mismatch> found = FindSeedMismatch(lists[0], lists[1]);
    if (!found.empty()) return found;
  }
  return {};
}

// For a run in which the policy's server gave no actions: the success rate without that.
std::string FaultNote(const char* whose, const std::vector<run::EpisodeRecord>& episodes) {
  const run::SplitSummary summary = run::Summarize(episodes, "test");
  const std::string faults = PolicyFaultsText(summary);
  if (faults.empty()) return "";
  return fmt::format("{} of the {}'s episodes broke and count as not successful{}",
                     summary.n_failed, whose, faults);
}

// Empty if few enough episodes broke.
std::string FindTooManyBroken(const run::RunFolder& run,
                              const std::vector<run::EpisodeRecord>& episodes) {
  const run::SplitSummary summary = run::Summarize(episodes, "test");
  if (summary.n_failed <= kMaxBrokenRate * summary.n_episodes) return "";
  return fmt::format(
      "{} of {} episodes of {} broke, more than 1 %: this is no verdict on the policy; each "
      "episode's failure_reason says why{}",
      summary.n_failed, summary.n_episodes, run.path.string(), PolicyFaultsText(summary));
}

int CountIdentical(const std::vector<EpisodePair>& pairs) {
  return static_cast<int>(std::ranges::count_if(pairs, [](const EpisodePair& pair) {
    return !pair.a.trace_hash.empty() && pair.a.trace_hash == pair.b.trace_hash;
  }));
}

// In one outcome class, only a change of dp_bench, policy or env makes a difference (ADR 0004).
std::string ExplainDifference(const run::RunFolder& baseline, const run::RunFolder& candidate,
                              int n_different, int n_shared) {
  const std::string before = run::OutcomeClassOf(baseline.manifest);
  const std::string now = run::OutcomeClassOf(candidate.manifest);
  if (n_different == 0 || before.empty() || now.empty()) return "";
  const std::string count =
      fmt::format("{} of {} episodes differ from the baseline's", n_different, n_shared);
  if (before == now) {
    return fmt::format(
        "{}; both runs are of the class \"{}\", so the policy, the env, dp_bench or "
        "LibTorch changed",
        count, now);
  }
  return fmt::format(
      "{}; the processor or what runs the policy on it may be the cause, because the baseline is "
      "of the class \"{}\" and the candidate of \"{}\"",
      count, before, now);
}

double Correlation(const PairCounts& counts) {
  const double n = counts.n();
  const double a = counts.n_success_a();
  const double b = counts.n_success_b();
  const double spread = std::sqrt(a * (n - a) * b * (n - b));
  return spread > 0.0 ? (n * counts.both_succeed - a * b) / spread : 0.0;
}

// `changes` of the score that decides; empty if success decides.
std::string HashOutcomes(std::span<const EpisodePair> pairs, std::span<const double> changes) {
  std::string text;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    text += fmt::format("{} {:d} {:d}", pairs[i].seed(), pairs[i].a.success, pairs[i].b.success);
    text += changes.empty() ? "\n" : fmt::format(" {}\n", changes[i]);
  }
  return core::Sha256Hex(text);
}

std::string CheckpointHash(const run::RunFolder& run) {
  return core::TextAt(core::TryParseJson(run.manifest), "/checkpoint/sha256");
}

// The fields that changed since the test stopped.
std::vector<Mismatch> FindChanges(const GateProgress& earlier, const GateResult& now,
                                  std::span<const EpisodePair> pairs,
                                  std::span<const double> changes) {
  if (earlier.decided_by != now.test.config().decided_by) {
    return {{"decided_by", earlier.decided_by, now.test.config().decided_by}};
  }
  if (!earlier.checkpoint_hash.empty() && !now.checkpoint_hash.empty() &&
      earlier.checkpoint_hash != now.checkpoint_hash) {
    return {{"checkpoint", earlier.checkpoint_hash, now.checkpoint_hash}};
  }
  const auto n = static_cast<std::size_t>(earlier.n_pairs);
  if (pairs.size() < n) {
    return {{"number of shared seeds", std::to_string(n), std::to_string(pairs.size())}};
  }
  const std::string hash =
      HashOutcomes(pairs.first(n), changes.empty() ? changes : changes.first(n));
  if (hash == earlier.outcomes_hash) return {};
  return {{fmt::format("outcomes of the first {} seeds", n), earlier.outcomes_hash, hash}};
}

// New minus old score of each pair; empty if success decides.
std::vector<double> ChangesOf(const run::RunFolder& baseline, const run::RunFolder& candidate,
                              std::span<const EpisodePair> pairs) {
  std::vector<double> changes;
  if (baseline.decided_by == kBySuccess) return changes;
  for (const EpisodePair& pair : pairs) {
    changes.push_back(GradedScore(baseline, candidate, pair.b) -
                      GradedScore(baseline, baseline, pair.a));
  }
  return changes;
}

void CountPairs(std::span<const EpisodePair> pairs, std::span<const double> changes,
                GateResult* result) {
  for (std::size_t i = 0; i < pairs.size() && !result->test.is_finished(); ++i) {
    result->test.Add(pairs[i].a.success, pairs[i].b.success, changes.empty() ? 0.0 : changes[i]);
  }
  const auto counted = pairs.first(static_cast<std::size_t>(result->test.counts().n_pairs()));
  PairCounts counts;
  for (const EpisodePair& pair : counted) counts.Add(pair.a.success, pair.b.success);
  result->baseline = WilsonInterval(counts.n_success_a(), counts.n());
  result->candidate = WilsonInterval(counts.n_success_b(), counts.n());
  result->drop = result->test.drop();
  result->rho = Correlation(counts);
  result->outcomes_hash =
      HashOutcomes(counted, changes.empty() ? changes : changes.first(counted.size()));
}

// How a test gets more seeds, as far as the runs have fewer than another doubling needs.
std::string MoreSeeds(const run::RunFolder& candidate, std::size_t n_baseline,
                      std::size_t n_candidate, const GateResult& result) {
  const int n = result.test.counts().n_pairs();
  const int max_pairs = result.test.config().max_pairs;
  if (n >= max_pairs) return "raise --max-pairs to continue this test";
  if (result.checkpoint_hash.empty()) {
    return "evaluate more seeds on both sides and run the gate again";
  }
  const int wanted = std::min(max_pairs, std::max(20, 2 * n));
  std::vector<std::string> steps;
  if (std::cmp_less(n_candidate, wanted)) {
    steps.push_back(
        fmt::format("evaluate more seeds: dp_bench eval --resume {} env_runner.n_test={}",
                    core::ShellWord(candidate.path.string()), wanted));
  }
  if (std::cmp_less(n_baseline, wanted)) {
    steps.push_back(
        fmt::format("evaluate the baseline's run in the same way up to "
                    "env_runner.n_test={} and write it with --update-baseline",
                    wanted));
  }
  return fmt::format("{}; then run the gate again", fmt::join(steps, "; "));
}

void Decide(const std::string& more_seeds, GateResult* result) {
  const SequentialTestConfig& config = result->test.config();
  const int n = result->test.counts().n_pairs();
  // a score has no unit; a success rate is told in points
  const bool is_graded = result->test.is_graded();
  const std::string of_what =
      is_graded ? fmt::format(" of the {}", ScoreTitle(config.decided_by)) : "";
  const std::string margin = is_graded ? fmt::format("{:.3g}", config.margin)
                                       : fmt::format("{:.3g} points", 100.0 * config.margin);
  if (result->has_signature) {
    result->status = GateStatus::kPass;
    result->reason = fmt::format("no change: {} of {} episodes equal the baseline's bit for bit",
                                 result->n_shared, result->n_shared);
    return;
  }
  switch (result->test.verdict()) {
    case Verdict::kPass:
      result->status = GateStatus::kPass;
      result->reason = fmt::format("after {} seeds a drop{} of {} is excluded", n, of_what, margin);
      return;
    case Verdict::kFail:
      result->status = GateStatus::kFail;
      result->reason = fmt::format("after {} seeds a drop{} is shown", n,
                                   is_graded ? of_what : " of the success rate");
      return;
    case Verdict::kInconclusive:
      break;
  }
  result->status = GateStatus::kInconclusive;
  result->reason = fmt::format("{} seeds neither show a drop{} nor exclude one of {}; {}", n,
                               of_what, margin, more_seeds);
}

void RequireEpisodes(const run::RunFolder& run, std::span<const run::EpisodeRecord> episodes) {
  if (!episodes.empty()) return;
  throw DataError(
      "{} has no test episodes; expected the folder of a run or of an evaluation, with "
      "episodes.jsonl",
      run.path.string());
}

}  // namespace

std::string BaselineJson(const run::RunFolder& run, std::string_view decided_by) {
  RequireOutcomes(run);
  run::RunFolder rule;  // what decides, as ParseBaseline reads it
  rule.decided_by = decided_by;
  rule.horizon = std::max(1, LongestEpisode(run.episodes, "test"));  // times are divided by it
  for (const run::EpisodeRecord& record : run.episodes) {
    if (record.split == "test") GradedScore(rule, run, record);
  }
  try {
    Json head = HeadOf(run);
    if (decided_by != kBySuccess) head[kDecidedBy] = decided_by;
    if (decided_by == kByTime) head["horizon"] = rule.horizon;
    // one line per episode, so that a diff of the baseline is readable
    std::string rows;
    for (const run::EpisodeRecord& record : run.episodes) {
      if (record.split != "test") continue;
      Json row = core::ToFields(record, VisitEpisode);
      if (decided_by == kByTime && record.success) row[kSuccessStep] = *StepOfSuccess(record);
      rows += (rows.empty() ? "\n    " : ",\n    ") + row.dump();
    }
    std::string text = head.dump(2);
    text.replace(text.size() - 2, 2, ",\n  \"episodes\": [" + rows + "\n  ]\n}\n");
    return text;
  } catch (const Error& fault) {
    throw DataError(
        "{} cannot become a baseline: expected config.json and manifest.json of an evaluation: {}",
        run.path.string(), fault.what());
  }
}

run::RunFolder ReadBaseline(const std::filesystem::path& file) {
  return ParseBaseline(core::ReadTextFile(file, kMaxBaselineBytes), file);
}

run::RunFolder ParseBaseline(std::string_view text, const std::filesystem::path& file) {
  run::RunFolder run = {.path = file};
  const std::string what = file.string() + " is not a baseline of dp_bench gate";
  const Json json = core::ParseJson(text, what);
  const core::JsonView view(json, what);
  if (view.Get<std::string>("format") != kFormat) {
    view.At("format").Fail("not of the format {}", kFormat);
  }
  ReadHead(view, &run);
  ReadRule(view, &run);
  for (const core::JsonView& row : view.Elements("episodes")) {
    auto record = core::FromFields<run::EpisodeRecord>(row, VisitEpisode);
    record.episode = static_cast<int>(run.episodes.size());
    record.split = "test";
    record.success_steps.first = row.GetOptional<int>(kSuccessStep).value_or(0);
    run.episodes.push_back(std::move(record));
  }
  if (run.episodes.empty()) throw DataError("{}: a baseline without episodes", file.string());
  return run;
}

std::string_view StatusName(GateStatus status) {
  return kStatuses.at(static_cast<std::size_t>(status)).first;
}

std::optional<GateStatus> StatusOf(std::string_view name) {
  const auto found = std::ranges::find(kStatuses, name, &NamedExit::first);
  if (found == kStatuses.end()) return std::nullopt;
  return static_cast<GateStatus>(found - kStatuses.begin());
}

int ExitCodeOf(GateStatus status) { return kStatuses.at(static_cast<std::size_t>(status)).second; }

double GateResult::log_fail_evidence() const {
  return test.looks().empty() ? 0.0 : test.looks().back().log_fail_evidence;
}

GateResult RunGate(const run::RunFolder& baseline, const run::RunFolder& candidate,
                   const SequentialTestConfig& config, const GateProgress* earlier,
                   const std::string& more_seeds) {
  const std::vector<run::EpisodeRecord> old_episodes = InTurns(baseline);
  const std::vector<run::EpisodeRecord> new_episodes = InTurns(candidate);
  SequentialTestConfig fixed = config;
  fixed.decided_by = baseline.decided_by;
  GateResult result = {.title = run::RunTitle(candidate),
                       .task = run::TaskTitle(candidate),
                       .test = SequentialTest(fixed)};
  result.checkpoint_hash = CheckpointHash(candidate);
  result.mismatches = FindTaskMismatches(baseline, candidate);
  if (result.mismatches.empty()) RequireEpisodes(candidate, new_episodes);
  const std::string why_unpaired = WhyUnpaired(baseline, candidate);
  if (why_unpaired.empty() && !new_episodes.empty()) {
    for (const Mismatch& mismatch : FindSeedMismatch(baseline, candidate)) {
      result.mismatches.push_back(mismatch);
    }
  }
  if (!result.mismatches.empty()) {
    result.status = GateStatus::kNotComparable;
    result.reason = fmt::format("{} differs from the baseline's", result.mismatches[0].field);
    return result;
  }
  const PairedOutcomes outcomes = why_unpaired.empty() ? PairBySeed(old_episodes, new_episodes)
                                                       : PairInOrder(baseline, candidate);
  const std::vector<double> changes = ChangesOf(baseline, candidate, outcomes.pairs);
  if (earlier != nullptr) {
    result.mismatches = FindChanges(*earlier, result, outcomes.pairs, changes);
  }
  if (!result.mismatches.empty()) {
    result.status = GateStatus::kNotComparable;
    result.reason =
        fmt::format("{} differs from that of the earlier gate", result.mismatches[0].field);
    return result;
  }
  result.reason = FindTooManyBroken(baseline, old_episodes);
  if (result.reason.empty()) result.reason = FindTooManyBroken(candidate, new_episodes);
  if (!result.reason.empty()) {
    result.status = GateStatus::kInfra;
    return result;
  }
  result.n_shared = outcomes.counts.n();
  const int n_identical = CountIdentical(outcomes.pairs);
  result.has_signature = n_identical >= kMinSignature && n_identical == result.n_shared;
  result.note =
      why_unpaired.empty()
          ? ExplainDifference(baseline, candidate, result.n_shared - n_identical, result.n_shared)
          : fmt::format(
                "unpaired: {}. Episodes are taken in their order, tasks in turns; the error rates "
                "hold, but a verdict takes more of them",
                why_unpaired);
  for (const std::string& note :
       {FaultNote("baseline", old_episodes), FaultNote("candidate", new_episodes)}) {
    if (!note.empty()) result.note += (result.note.empty() ? "" : ". ") + note;
  }
  CountPairs(outcomes.pairs, changes, &result);
  Decide(more_seeds.empty() ? MoreSeeds(candidate, old_episodes.size(), new_episodes.size(), result)
                            : more_seeds,
         &result);
  return result;
}

Json ToJson(const GateResult& result) {
  return {{"task", result.task},
          {"status", StatusName(result.status)},
          {"reason", result.reason},
          {"note", result.note},
          {"candidate_title", result.title},
          {"mismatches", result.mismatches},
          {"signature", result.has_signature},
          {"n_shared", result.n_shared},
          {"baseline", result.baseline},
          {"candidate", result.candidate},
          {"drop", result.drop},
          {"rho", result.rho},
          {"log_fail_evidence", result.log_fail_evidence()},
          {"outcomes_hash", result.outcomes_hash},
          {"checkpoint_hash", result.checkpoint_hash},
          {"test", ToJson(result.test)}};
}

}  // namespace dp_bench::compare
