// Checks that the outcomes of an env are a function of the seed: the premise of every comparison by
// seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "dp_bench/env.h"
#include "run/manifest.h"

namespace dp_bench::rollout {

/// Plays random actions for up to 100 steps of three seeds, and compares observations, rewards,
/// flags and metrics bit by bit: in a fresh env, with the same seed again, after other seeds, in
/// another fresh env, and in one beside others that run in threads. `make_env` starts a process for
/// each env if processes are part of the question. Throws what the env throws.
run::DeterminismCertificate CertifyDeterminism(
    const std::function<std::unique_ptr<Env>()>& make_env, std::uint64_t first_seed = 100000);

}  // namespace dp_bench::rollout
