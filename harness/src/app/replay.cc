// dp_bench replay: runs one episode of a run again and records its video. dp_bench diff: finds the
// first difference between two runs, in episodes that are run again if they were not recorded.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "app/light/verbs.h"
#include "app/verbs.h"
#include "compare/pairing.h"
#include "compare/plan_difference.h"
#include "compare/run_comparison.h"
#include "compare/trace_difference.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/temporary_folder.h"
#include "evaluate/evaluation.h"
#include "run/episode_trace.h"
#include "run/plan_record.h"
#include "run/run_files.h"
#include "run/run_folder.h"
#include "run/safetensors.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReplayDetails =
    R"(Runs the episode again with the run's checkpoint and config, records its video at any size and every
step (traces/, safetensors). Exit code 1: the trace hash differs from the recorded one.

Examples:
  dp_bench replay --run runs/x --episode 17 --size 960 720)";

struct ReplayVerbOptions {
  fs::path run;
  int episode = 0;
  std::vector<int> size;  // [width, height]
  std::string device;     // empty: the run's
  fs::path output;
};

int Replay(const ReplayVerbOptions& options) {
  const run::RunFolder run = run::ReadRunFolder(run::FindRunOf(options.run));
  run::RequireFinished(run);
  const run::EpisodeRecord& recorded = evaluate::EpisodeAt(run, options.episode);
  std::vector<std::string> overrides;
  if (!options.size.empty()) {
    overrides.push_back(
        fmt::format("env_runner.video_size=[{},{}]", options.size[0], options.size[1]));
  }
  if (!options.device.empty()) overrides.push_back("training.device=" + options.device);
  const fs::path output = options.output.empty() ? run.path / run::kReplayFolder : options.output;
  const run::EpisodeRecord record =
      evaluate::RunRecordedEpisode(run, options.episode, overrides, output);

  core::PrintResult("episode {}: {} seed {}, score {:.3f}, {}, {} steps\n", record.episode,
                    record.split, record.seed, record.score,
                    record.success ? "success" : "no success", record.n_steps);
  if (record.failure_reason) core::PrintResult("failed: {}\n", *record.failure_reason);
  core::PrintResult("{}\n", record.video_error.empty() ? (output / record.video).string()
                                                       : "no video: " + record.video_error);
  if (record.trace_hash == recorded.trace_hash) {
    core::PrintResult("trace hash as recorded: {}\n", record.trace_hash);
    return 0;
  }
  core::PrintResult(
      "the episode went differently: trace hash {}, recorded {} (score {:.3f}, {} steps)\n",
      record.trace_hash, recorded.trace_hash, recorded.score, recorded.n_steps);
  return 1;
}

constexpr const char* kDiffDetails =
    R"(Pairs the episodes by split and seed, takes the first pair with different trace hashes, and prints
the first step and value that are not equal bit for bit. If a run has no recorded traces
(env_runner.record_traces), the episode is run again. Exit codes: 0 all equal, 1 a difference, 4 env
or task differ.

A record of plans has what a policy was asked and what it answered: `serve --record DIR` writes one,
and `eval env_runner.record_plans=true` writes <run>/plans. If a or b is such a folder, their plans are
compared, paired by seed and step. In a run without a record, an episode is run again to get one.

Examples:
  dp_bench diff runs/a runs/b
  dp_bench diff runs/a runs/b --episode 17
  dp_bench diff runs/in_process served_plans)";

struct DiffVerbOptions {
  fs::path a;
  fs::path b;
  int episode = -1;  // index in A's seed list; -1: the first that differs
};

std::vector<compare::EpisodePair> PairAll(const run::RunFolder& a, const run::RunFolder& b) {
  std::vector<compare::EpisodePair> pairs;
  for (const char* split : {"train", "test"}) {
    const compare::PairedOutcomes outcomes = compare::PairBySeed(a.episodes, b.episodes, split);
    pairs.insert(pairs.end(), outcomes.pairs.begin(), outcomes.pairs.end());
  }
  return pairs;
}

// The recorded trace, or that of a replay.
ArrayMap TraceOf(const run::RunFolder& run, const run::EpisodeRecord& record,
                 const fs::path& scratch) {
  const fs::path file = run::TraceFile(record.split, record.seed);
  if (fs::exists(run.path / file)) return run::ReadSafetensors(run.path / file).tensors;
  const run::EpisodeRecord again = evaluate::RunRecordedEpisode(run, record.episode, {}, scratch);
  if (again.trace_hash != record.trace_hash) {
    core::PrintResult(
        "note: the replay of {} differs from the recording (another build or machine?); the "
        "following is about the replay\n",
        run.path.string());
  }
  return run::ReadSafetensors(scratch / file).tensors;
}

int Describe(const run::RunFolder& a, const run::RunFolder& b, const compare::EpisodePair& pair) {
  const core::TemporaryFolder scratch;
  const auto found = compare::FindFirstDifference(TraceOf(a, pair.a, scratch.path() / "a"),
                                                  TraceOf(b, pair.b, scratch.path() / "b"));
  core::PrintResult("episode {} ({} seed {}): ", pair.a.episode, pair.a.split, pair.seed());
  if (!found) {
    const bool is_same = pair.a.trace_hash == pair.b.trace_hash;
    core::PrintResult("{}\n", is_same ? "no step differs"
                                      : "all steps are equal, but the policies planned at others");
    return is_same ? 0 : 1;
  }
  core::PrintResult("first difference at step {}, {}\n  {}  {}\n  {}  {}\n", found->step,
                    found->field, found->a, a.path.string(), found->b, b.path.string());
  return 1;
}

// The record in `folder`, which may be one or a run; or, for a run without one, that of the first
// episode of which `other` has plans, which is run again.
run::PlanRecord PlansOf(const fs::path& folder, const fs::path& other, const fs::path& scratch) {
  for (const fs::path& place : {folder, folder / run::kPlansFolder}) {
    if (run::PlanRecord::IsIn(place)) return run::PlanRecord(place);
  }
  const run::RunFolder run = run::ReadRunFolder(folder);
  run::RequireFinished(run);
  const run::PlanRecord wanted = PlansOf(other, folder, scratch);
  for (const run::RecordedPlan& plan : wanted.plans()) {
    const auto found = std::ranges::find(run.episodes, plan.seed, &run::EpisodeRecord::seed);
    if (found == run.episodes.end()) continue;
    core::PrintResult("{} has no record of plans; running episode {} (seed {}) again\n",
                      folder.string(), found->episode, found->seed);
    evaluate::RunRecordedEpisode(run, found->episode, {"env_runner.record_plans=true"}, scratch);
    return run::PlanRecord(scratch / run::kPlansFolder);
  }
  throw UsageError("'{}' has no episode with a seed of which '{}' has plans", folder.string(),
                   other.string());
}

int DiffPlans(const DiffVerbOptions& options) {
  const core::TemporaryFolder scratch;
  run::PlanRecord a = PlansOf(options.a, options.b, scratch.path());
  run::PlanRecord b = PlansOf(options.b, options.a, scratch.path());
  const compare::PlanComparison result = compare::ComparePlans(a, b);
  core::PrintResult("A {}: {} plans\nB {}: {} plans\n{} pairs{}\n", options.a.string(),
                    a.plans().size(), options.b.string(), b.plans().size(), result.n_pairs,
                    result.is_in_order ? ", by their order: no seed and step is in both" : "");
  if (!result.first) {
    core::PrintResult("no plan differs\n");
    return 0;
  }
  const compare::PlanDifference& first = *result.first;
  core::PrintResult(
      "first difference after {} equal plans: seed {}, step {}, {}\n  A  {}\n  B  {}\n",
      result.n_equal, first.seed, first.step, first.field, first.a, first.b);
  core::PrintResult("  {} of {} elements differ", first.n_different, first.n_elements);
  if (first.largest > 0.0) core::PrintResult(", by at most {:.6g}", first.largest);
  core::PrintResult("\n");
  if (!first.explanation.empty()) core::PrintResult("  {}\n", first.explanation);
  return 1;
}

int Diff(const DiffVerbOptions& options) {
  if (run::PlanRecord::IsIn(options.a) || run::PlanRecord::IsIn(options.b)) {
    return DiffPlans(options);
  }
  const run::RunFolder a = run::ReadRunFolder(options.a);
  const run::RunFolder b = run::ReadRunFolder(options.b);
  for (const run::RunFolder* run : {&a, &b}) run::RequireFinished(*run);
  if (ReportMismatches(compare::FindTaskMismatches(a, b), a, b)) return core::kExitNotComparable;
  const std::vector<compare::EpisodePair> pairs = PairAll(a, b);
  if (pairs.empty()) {
    core::PrintStatus("not comparable: '{}' and '{}' share no seed\n", options.a.string(),
                      options.b.string());
    return core::kExitNotComparable;
  }
  const compare::EpisodePair* chosen = nullptr;
  int n_different = 0;
  for (const compare::EpisodePair& pair : pairs) {
    const bool is_different = pair.a.trace_hash != pair.b.trace_hash;
    n_different += is_different ? 1 : 0;
    const bool is_wanted =
        options.episode < 0 ? is_different && n_different == 1 : pair.a.episode == options.episode;
    if (is_wanted) chosen = &pair;
  }
  core::PrintResult("{} of {} episodes differ\n", n_different, pairs.size());
  if (chosen != nullptr) return Describe(a, b, *chosen);
  if (options.episode < 0) return 0;
  throw UsageError("'{}' has no episode {} on a seed that '{}' ran too", options.a.string(),
                   options.episode, options.b.string());
}

}  // namespace

Verb AddReplay(CLI::App* app) {
  auto options = std::make_shared<ReplayVerbOptions>();
  app->footer(kReplayDetails);
  AddFolder(app, "--run", &options->run, "Run folder, or one of its checkpoints")->required();
  app->add_option("--episode", options->episode, "Its index in the seed list, as in episodes.jsonl")
      ->required();
  app->add_option("--size", options->size, "Width and height of the video [px]")->expected(2);
  app->add_option(
      "--device", options->device,
      "Device of the policy (training.device); if it is not the run's device, the hash may differ");
  app->add_option("--output", options->output, "Where video and trace go (default: <run>/replay)");
  return [options] { return Replay(*options); };
}

Verb AddDiff(CLI::App* app) {
  auto options = std::make_shared<DiffVerbOptions>();
  app->footer(kDiffDetails);
  AddFolder(app, "a", &options->a, "Run folder, or record of plans")->required();
  AddFolder(app, "b", &options->b, "Run folder, or record of plans")->required();
  app->add_option("--episode", options->episode,
                  "Index in the first run's seed list (default: the first that differs)");
  return [options] { return Diff(*options); };
}

}  // namespace dp_bench::app
