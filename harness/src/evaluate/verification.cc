#include "evaluate/verification.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "compare/gate.h"
#include "compare/gate_report.h"
#include "core/atomic_file.h"
#include "core/communicator.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "report/gate_output.h"
#include "report/html_report.h"
#include "run/run_files.h"
#include "run/run_folder.h"
#include "task/experiment.h"

namespace dp_bench::evaluate {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kFirstLook = 8;  // episodes; as many show that nothing changed

// What is common to both: everything but the policy.
CheckpointEvaluationOptions ReferenceOptions(const CheckpointEvaluationOptions& options,
                                             const fs::path& checkpoint) {
  CheckpointEvaluationOptions reference = options;
  reference.checkpoint = checkpoint;
  reference.experiment.policy.clear();
  reference.experiment.takes_env_only = !reference.experiment.env.empty();
  reference.output = fs::path(fmt::format("{}_reference", options.output.string()));
  std::erase_if(reference.experiment.overrides, [](const std::string& override_) {
    return override_.starts_with("policy.") || override_.starts_with("env_runner.n_train=");
  });
  reference.experiment.overrides.emplace_back("env_runner.n_train=0");
  return reference;
}

void RequireKnownLatency(const CheckpointEvaluationOptions& options) {
  const control::EnvRunnerConfig runner = task::Experiment(WithConfig(options)).runner();
  if (runner.realtime == 0.0 || runner.realtime_latency_ms > 0.0) return;
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

}  // namespace

int EvaluateVerified(const CheckpointEvaluationOptions& options,
                     const VerificationOptions& verification) {
  core::SingleProcess alone;
  const CheckpointEvaluationOptions of_reference =
      ReferenceOptions(options, verification.reference);
  for (const CheckpointEvaluationOptions* each : {&options, &of_reference}) {
    RequireKnownLatency(*each);
  }
  core::PrintResult("reference: {}\n", of_reference.output.string());
  const int exit_code = CheckpointEvaluation(of_reference, alone).RunToItsEnd();
  if (exit_code == core::kExitInterrupted) return exit_code;

  const run::RunFolder reference = run::ReadRunFolder(of_reference.output);
  const auto n_pairs = static_cast<int>(reference.episodes.size());
  const compare::SequentialTestConfig config = {.margin = verification.margin,
                                                .max_pairs = n_pairs};
  const auto judge = [&](const run::RunFolder& candidate) {
    return compare::RunGate(reference, candidate, config, nullptr, verification.more_seeds);
  };
  std::optional<compare::GateResult> result = GateByRollouts(
      options, reference, {.n_first = kFirstLook, .max_episodes = n_pairs, .judge = judge});
  if (!result) return core::kExitInterrupted;

  const compare::GateReport report = compare::JudgeTasks(config, {*std::move(result)});
  const run::RunFolder candidate = run::ReadRunFolder(options.output);
  const Json verdict = VerificationJson(report, reference, candidate, verification.margin);
  core::WriteFileAtomically(options.output / run::kVerificationFile, verdict.dump(2) + "\n");
  report::WriteHtmlReport(candidate);
  core::PrintResult("{}", report::GateText(report));
  if (verdict.contains("speedup")) {
    core::PrintResult("a chunk at batch 1: {:.1f} ms instead of {:.1f} ms, {:.2f} times as fast\n",
                      verdict["latency"]["candidate"]["p50_ms"].get<double>(),
                      verdict["latency"]["reference"]["p50_ms"].get<double>(),
                      verdict["speedup"].get<double>());
  }
  return compare::ExitCodeOf(report.status);
}

}  // namespace dp_bench::evaluate
