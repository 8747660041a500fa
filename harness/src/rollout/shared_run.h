// One seed list run by several ranks.
#pragma once

#include <span>
#include <string>

#include "core/communicator.h"
#include "rollout/env_runner.h"

namespace dp_bench::rollout {

/// Like EnvRunner::Run, but each rank runs its share of `episodes`: rank r starts with the r-th and
/// takes every size-th. Every rank gets the records of all. They equal those of one process, except
/// for their wall times, which are 0. Counts are summed, times are those of the slowest rank. The
/// hooks report only this rank's episodes. The result is interrupted if any rank was.
run::RunResult RunShared(EnvRunner& runner, control::ChunkPlanner& planner,
                         core::Communicator& ranks, std::span<const int> episodes,
                         const run::RunHooks& hooks = {});

/// Encode a result as bytes, and decode it: exact, but without the records' wall times.
std::string EncodeResult(const run::RunResult& result);
run::RunResult DecodeResult(const std::string& bytes);

}  // namespace dp_bench::rollout
