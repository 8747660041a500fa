// Checks that the outcomes of an env are a function of the seed: the premise of every comparison by
// seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "dp_bench/env.h"
#include "run/manifest.h"

namespace dp_bench::rollout {

struct CertificateRequest {
  std::uint64_t first_seed = 100000;
  int n_seeds = 3;
  int n_steps = 100;  // fewer if the env's max_steps is less
};

/// Plays random actions, which each seed repeats, and compares observations, rewards, flags and
/// metrics bit by bit: in a fresh env, with the same seed again, after other seeds, in another
/// fresh env, and in one beside others that run in threads. `make_env` starts a process for each
/// env if processes are part of the question. Throws what the env throws.
run::DeterminismCertificate CertifyDeterminism(
    const std::function<std::unique_ptr<Env>()>& make_env, const CertificateRequest& request = {});

}  // namespace dp_bench::rollout
