// One seed list run by several ranks.
#pragma once

#include <span>
#include <string>

#include "core/communicator.h"
#include "rollout/env_runner.h"

namespace dp_bench::rollout {

/// As EnvRunner::Run, for every rank with the episodes that are its own: rank r has every size-th
/// of `episodes`, from the r-th on. Every rank gets the records of all,
/// equal to those of one process but for their wall times, which are 0. Counts are summed, times
/// are those of the slowest rank. The hooks tell of this rank's episodes alone. Interrupted when
/// one rank was.
run::RunResult RunShared(EnvRunner& runner, ChunkPlanner& planner, core::Communicator& ranks,
                         std::span<const int> episodes, const run::RunHooks& hooks = {});

/// A result as bytes, and back: everything but the records' wall times, exactly.
std::string EncodeResult(const run::RunResult& result);
run::RunResult DecodeResult(const std::string& bytes);

}  // namespace dp_bench::rollout
