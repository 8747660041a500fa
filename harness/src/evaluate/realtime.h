// Evaluations in which simulated time passes while the policy plans.
#pragma once

#include <vector>

#include "core/communicator.h"
#include "core/exit_code.h"
#include "evaluate/checkpoint_evaluation.h"

namespace dp_bench::evaluate {

/// With env_runner.realtime and no env_runner.realtime_latency_ms: measures the planning time at
/// batch 1 (median) and adds it to the overrides. So it is in the run's config.json, and outcomes
/// remain a function of checkpoint, env, seed and config.
void ProvideRealtimeLatency(CheckpointEvaluationOptions* options, core::Communicator& ranks);

/// Evaluates once for each planning time in `latencies_ms` (0: the env waits) in latency_<ms> of
/// the run folder. Writes realtime.json into the run folder and prints success against latency.
/// Returns the exit code: kExitInterrupted after a stop signal, that of failed episodes if any
/// evaluation has one.
int EvaluateAtLatencies(const CheckpointEvaluationOptions& options,
                        const std::vector<double>& latencies_ms, core::Communicator& ranks);

}  // namespace dp_bench::evaluate
