// The classes EnvBatch and Rows of the extension modules, whose functions make batches.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "env_batch.h"

namespace dp_bench::python {

/// How a Python class makes a batch: `num_envs`, `n_threads`, `autoreset` (the name of a
/// gymnasium.vector.AutoresetMode, or NONE for a single environment), `max_episode_steps` (0: no
/// limit, -1: the spec's).
struct BatchOptions {
  int num_envs = 1;
  int n_threads = 1;
  std::string autoreset;
  int max_episode_steps = 0;
};

/// `max_chunk`: see EnvBatch.
std::unique_ptr<EnvBatch> MakeBatch(const EnvBatch::Factory& factory, const BatchOptions& options,
                                    std::size_t max_chunk);

/// Also registers the errors: ValueError for what the caller passed, else RuntimeError.
void BindBatch(nanobind::module_& m);

}  // namespace dp_bench::python
