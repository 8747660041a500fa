// What `dp_bench bench policy` measures: how long a policy's action chunks and training steps take,
// and how close that is to the machine's limits. No dataset and no weights are needed.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "task/experiment.h"

namespace dp_bench::profile {

struct PolicyBenchOptions {
  std::vector<std::int64_t> chunks = {1, 16, 50};  // batch sizes; empty: no chunks
  bool has_training = true;                        // a step of dataloader.batch_size
  int n_rounds = 5;
  double seconds = 1.0;  // of each round
};

/// Measures initial weights on random observations. A training step is that of `dp_bench train`:
/// loss, gradients, optimizer, EMA. Each of "rows" has "work" ("action chunk" or "training step"),
/// "precision" of its products, "ms" (the median of "rounds_ms"), "flop" of its products,
/// "weight_bytes" that a chunk reads if each denoising step reads all weights, and "limit_ms": the
/// longer of flop at the machine's rate and of reading weight_bytes.
nlohmann::json BenchPolicy(const task::Experiment& experiment, const PolicyBenchOptions& options);

/// A table for the terminal. Ends with a line break.
std::string BenchText(const nlohmann::json& bench);

}  // namespace dp_bench::profile
