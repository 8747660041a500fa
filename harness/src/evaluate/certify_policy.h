// Checks that a policy's answers are a function of (observation, seed): the premise of comparing
// its episodes by seed. Meant for policies behind a server.
#pragma once

#include <span>
#include <string>

#include "control/chunk_planner.h"
#include "control/env_runner_config.h"
#include "dp_bench/spec.h"
#include "run/manifest.h"

namespace dp_bench::evaluate {

/// Asks for the chunk of rows[0] again, after other rows, beside others, and at another place among
/// them, and compares bit by bit. The step of the first difference is that of the chunk, its key
/// "action[2]". The other questions are `rows` with other seeds. No episode is continued after
/// another began if `plays_one_episode`. Throws Error{kEnv} if a question is not answered, and what
/// the planner throws.
run::DeterminismCertificate CertifyPolicy(control::ChunkPlanner& planner, const PolicySpec& spec,
                                          std::span<const control::RecordedObs> rows,
                                          bool plays_one_episode = false);

/// Whether a policy's provenance says that its server plays one episode at a time, as those of
/// objects in Python do.
bool PlaysOneEpisode(const std::string& provenance);

/// Throws Error{kConfig} if the splits share seeds, episodes run at once, and a policy's provenance
/// says that its server remembers episodes: it would take two of the same seed for one.
void RequireSeedsApart(const control::EnvRunnerConfig& config, const std::string& provenance);

}  // namespace dp_bench::evaluate
