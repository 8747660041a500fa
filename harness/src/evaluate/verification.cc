#include "evaluate/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "compare/gate_report.h"
#include "compare/pairing.h"
#include "control/env_runner_config.h"
#include "core/atomic_file.h"
#include "core/communicator.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/shell.h"
#include "core/stop_signal.h"
#include "report/gate_output.h"
#include "report/html_report.h"
#include "run/manifest.h"
#include "run/run_files.h"
#include "task/experiment.h"

namespace dp_bench::evaluate {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Two micro-batches: the default number of envs.
constexpr int kEpisodesPerBlock = 32;

run::SeedRange SeedsOf(const run::RunFolder& baseline) {
  run::SeedRange range;
  for (const run::EpisodeRecord& record : baseline.episodes) {
    if (record.split != "test") continue;
    if (range.n == 0) range.first = record.seed;
    if (record.seed != range.first + static_cast<std::uint64_t>(range.n)) {
      throw DataError(
          "{}: seed {} is not the previous seed plus 1; the gate can roll out a checkpoint only on "
          "consecutive seeds. Evaluate it with dp_bench eval.",
          baseline.path.string(), record.seed);
    }
    ++range.n;
  }
  return range;
}

CheckpointEvaluationOptions WithSeeds(CheckpointEvaluationOptions options,
                                      const run::SeedRange& seeds) {
  for (const std::string& value :
       {std::string("env_runner.n_train=0"), std::string("env_runner.n_videos=0"),
        fmt::format("env_runner.n_test={}", seeds.n),
        fmt::format("env_runner.test_start_seed={}", seeds.first)}) {
    options.experiment.overrides.push_back(value);
  }
  return options;
}

// An evaluation whose episodes run in blocks, in the order of its seeds.
class BlockEvaluation {
 public:
  explicit BlockEvaluation(CheckpointEvaluationOptions options)
      : evaluation_(std::move(options), alone_), run_(run::ReadRunFolder(evaluation_.folder())) {}

  /// With the episodes so far.
  const run::RunFolder& run() const { return run_; }
  int n_episodes() const { return static_cast<int>(all_.records.size()); }

  /// Runs up to the n-th episode. False after a stop signal.
  bool RunTo(int n) {
    std::vector<int> block(static_cast<std::size_t>(n - n_episodes()));
    std::iota(block.begin(), block.end(), n_episodes());
    Append(evaluation_.Run(block));
    run_.episodes = all_.records;
    return !all_.is_interrupted;
  }

  void Report() { evaluation_.Report(all_); }

 private:
  void Append(run::RunResult block) {
    std::ranges::move(block.records, std::back_inserter(all_.records));
    all_.metric_names = std::move(block.metric_names);
    all_.n_env_steps += block.n_env_steps;
    all_.n_plans += block.n_plans;
    all_.plan_s += block.plan_s;
    all_.wall_s += block.wall_s;
    all_.is_interrupted = block.is_interrupted;
  }

  core::SingleProcess alone_;
  CheckpointEvaluation evaluation_;
  run::RunFolder run_;
  run::RunResult all_;
};

// Whether more episodes cannot change the verdict.
bool IsDecided(const compare::GateResult& result, const compare::GateRolloutPlan& plan) {
  if (result.has_signature && !plan.stops_at_signature) {
    return result.test.verdict() != compare::Verdict::kInconclusive;
  }
  // with more episodes, the share of broken ones may fall below the limit
  return result.status != compare::GateStatus::kInconclusive &&
         result.status != compare::GateStatus::kInfra;
}

// Runs a block of each, of which the candidate is the last, until there is a verdict; then reports
// them all. None after a stop signal.
std::optional<compare::GateResult> JudgeBlocks(const run::RunFolder& baseline,
                                               const std::vector<BlockEvaluation*>& evaluations,
                                               const compare::GateRolloutPlan& plan) {
  const BlockEvaluation& candidate = *evaluations.back();
  if (!compare::FindTaskMismatches(baseline, candidate.run()).empty()) {
    return plan.judge(candidate.run());  // of another task, it need not run
  }
  std::optional<compare::GateResult> result;
  while (!result || !IsDecided(*result, plan)) {
    const int n_done = candidate.n_episodes();
    if (n_done == plan.max_episodes) break;
    const int wanted = n_done == 0 ? plan.n_first : n_done + kEpisodesPerBlock;
    for (BlockEvaluation* evaluation : evaluations) {
      if (!evaluation->RunTo(std::min(wanted, plan.max_episodes))) return std::nullopt;
    }
    result = plan.judge(candidate.run());
    const std::string evidence = report::GateProgressLine(*result);
    if (!evidence.empty()) core::PrintStatus("{}\n", evidence);
  }
  for (BlockEvaluation* evaluation : evaluations) evaluation->Report();
  return result;
}

std::string ResumeCommand(const fs::path& folder) {
  return fmt::format("dp_bench eval --resume {}", core::ShellWord(folder.string()));
}

fs::path ReferenceFolder(const fs::path& candidate) {
  return fs::path(fmt::format("{}_reference", (candidate / "").parent_path().string()));
}

// What is common to both: everything but the policy.
CheckpointEvaluationOptions ReferenceOptions(const CheckpointEvaluationOptions& options,
                                             const fs::path& checkpoint) {
  CheckpointEvaluationOptions reference = options;
  if (!options.resume.empty()) {
    reference.resume = ReferenceFolder(options.resume);
    CheckpointEvaluationOptions taken = reference;
    TakeFromFolder(&taken);
    std::error_code fault;
    if (fs::equivalent(taken.checkpoint, checkpoint, fault)) return reference;
    throw UsageError("--verify-against: '{}' was rolled out with '{}', not with '{}'",
                     reference.resume.string(), taken.checkpoint.string(), checkpoint.string());
  }
  reference.checkpoint = checkpoint;
  reference.experiment.policy.clear();
  reference.experiment.takes_env_only = !reference.experiment.env.empty();
  reference.output = ReferenceFolder(options.output);
  std::erase_if(reference.experiment.overrides,
                [](const std::string& override_) { return override_.starts_with("policy."); });
  return reference;
}

// Another margin after a look at the outcomes would make the error rates wrong.
void RequireSameMargin(const fs::path& resumed, double margin) {
  const auto before = run::ReadRunFolder(resumed).ReadVerification();
  if (!before || before->value("margin", margin) == margin) return;
  throw UsageError("--margin: '{}' was begun with {}, found {}", resumed.string(),
                   before->value("margin", margin), margin);
}

// The section env_runner, which may not measure a latency.
control::EnvRunnerConfig RunnerOf(CheckpointEvaluationOptions options) {
  if (!options.resume.empty()) TakeFromFolder(&options);
  control::EnvRunnerConfig runner = task::Experiment(WithConfig(options)).runner();
  if (runner.realtime == 0.0 || runner.realtime_latency_ms > 0.0) return runner;
  throw UsageError(
      "--verify-against with env_runner.realtime: give env_runner.realtime_latency_ms, because "
      "reference and candidate would each measure their own");
}

// Of a chunk at batch 1.
Json LatencyJson(const run::RunFolder& run) {
  const auto latency = run.ReadLatency();
  if (!latency) return nullptr;
  const run::LatencySummary& chunk = latency->alone.chunk;
  return {{"p50_ms", 1e3 * chunk.p50_s}, {"p95_ms", 1e3 * chunk.p95_s}, {"n", chunk.n}};
}

Json VerificationJson(const compare::GateReport& report, const run::RunFolder& reference,
                      const run::RunFolder& candidate, double margin) {
  Json written = {
      {"reference", reference.path.string()},
      {"margin", margin},
      {"gate", compare::ToJson(report)},
      {"latency", {{"reference", LatencyJson(reference)}, {"candidate", LatencyJson(candidate)}}}};
  const Json& latency = written["latency"];
  if (!latency["reference"].is_null() && !latency["candidate"].is_null()) {
    const double ours = latency["candidate"]["p50_ms"].get<double>();
    if (ours > 0.0) written["speedup"] = latency["reference"]["p50_ms"].get<double>() / ours;
  }
  return written;
}

// Into the folder of the candidate.
void WriteVerdict(const compare::GateReport& report, const fs::path& reference,
                  const fs::path& output, double margin) {
  const run::RunFolder candidate = run::ReadRunFolder(output);
  const Json verdict = VerificationJson(report, run::ReadRunFolder(reference), candidate, margin);
  core::WriteFileAtomically(output / run::kVerificationFile, verdict.dump(2) + "\n");
  report::WriteHtmlReport(candidate);
  core::PrintResult("{}", report::GateText(report));
  if (!verdict.contains("speedup")) return;
  core::PrintResult("a chunk at batch 1: {:.1f} ms instead of {:.1f} ms, {:.2f} times as fast\n",
                    verdict["latency"]["candidate"]["p50_ms"].get<double>(),
                    verdict["latency"]["reference"]["p50_ms"].get<double>(),
                    verdict["speedup"].get<double>());
}

}  // namespace

std::optional<compare::GateResult> GateByRollouts(CheckpointEvaluationOptions options,
                                                  const run::RunFolder& baseline,
                                                  const compare::GateRolloutPlan& plan) {
  const run::SeedRange seeds = SeedsOf(baseline);
  core::CatchStopSignals();  // also while loading
  BlockEvaluation candidate(WithSeeds(std::move(options), seeds));
  compare::GateRolloutPlan limited = plan;
  limited.max_episodes = std::min(seeds.n, plan.max_episodes);
  auto result = JudgeBlocks(baseline, {&candidate}, limited);
  if (!result) {
    core::PrintResult(
        "interrupted after {} episodes; continue with {}, then compare that folder with the "
        "baseline\n",
        candidate.n_episodes(), ResumeCommand(candidate.run().path));
  }
  return result;
}

int EvaluateVerified(const CheckpointEvaluationOptions& options,
                     const VerificationOptions& verification) {
  const bool resumes = !options.resume.empty();
  if (resumes) RequireSameMargin(options.resume, verification.margin);
  const CheckpointEvaluationOptions of_reference =
      ReferenceOptions(options, verification.reference);
  RunnerOf(options);
  const control::EnvRunnerConfig runner = RunnerOf(of_reference);
  const run::SeedRange seeds = {.first = runner.test_start_seed, .n = runner.n_test};
  if (seeds.n == 0)
    throw UsageError("--verify-against needs test episodes: env_runner.n_test is 0");
  core::CatchStopSignals();  // also while loading
  BlockEvaluation reference(resumes ? of_reference : WithSeeds(of_reference, seeds));
  BlockEvaluation candidate(resumes ? options : WithSeeds(options, seeds));
  core::PrintResult("reference: {}\n", reference.run().path.string());
  const std::string resume_command =
      fmt::format("{} --verify-against {} --margin {}", ResumeCommand(candidate.run().path),
                  core::ShellWord(verification.reference.string()), verification.margin);
  const std::string more_seeds =
      !verification.more_seeds.empty()
          ? verification.more_seeds
          : fmt::format("continue with {} env_runner.n_test={}", resume_command, 2 * seeds.n);

  const compare::SequentialTestConfig config = {.margin = verification.margin,
                                                .max_pairs = seeds.n};
  const auto judge = [&](const run::RunFolder& run) {
    return compare::RunGate(reference.run(), run, config, nullptr, more_seeds);
  };
  auto result = JudgeBlocks(reference.run(), {&reference, &candidate},
                            {.max_episodes = seeds.n, .judge = judge});
  if (!result) {
    core::PrintResult("interrupted after {} seeds; continue with {}\n", candidate.n_episodes(),
                      resume_command);
    return core::kExitInterrupted;
  }
  const compare::GateReport report = compare::JudgeTasks(config, {*std::move(result)});
  WriteVerdict(report, reference.run().path, candidate.run().path, verification.margin);
  return compare::ExitCodeOf(report.status);
}

}  // namespace dp_bench::evaluate
