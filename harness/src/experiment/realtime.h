// Evaluations in which simulated time passes while the policy thinks.
#pragma once

#include <vector>

#include "core/communicator.h"
#include "core/exit_code.h"
#include "experiment/checkpoint_evaluation.h"

namespace dp_bench::experiment {

/// With env_runner.realtime and no env_runner.realtime_latency_ms: measures how long one plan takes
/// (median of batch 1) and adds it to the overrides, so that it is in the run's config.json and
/// outcomes are a function of checkpoint, env, seed and config as always.
void ProvideRealtimeLatency(CheckpointEvaluationOptions* options, core::Communicator& ranks);

/// Evaluates with plans that take each of `latencies_ms`, 0 for none, in latency_<ms> of the run
/// folder; writes realtime.json there and prints success against latency. Returns the exit code:
/// kExitInterrupted after a stop signal, that of failed episodes when any evaluation has one.
int EvaluateAtLatencies(CheckpointEvaluationOptions options,
                        const std::vector<double>& latencies_ms, core::Communicator& ranks);

}  // namespace dp_bench::experiment
