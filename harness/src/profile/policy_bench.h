// What `dp_bench bench policy` measures: how long a policy's action chunks and training steps take,
// and how close that is to the machine's limits. No dataset and no weights are needed.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "profile/machine_limits.h"
#include "task/experiment.h"

namespace dp_bench::profile {

struct PolicyBenchOptions {
  std::vector<std::int64_t> chunks = {1, 16, 50};  // batch sizes; empty: no chunks
  bool has_training = true;                        // a step of dataloader.batch_size
  int n_rounds = 5;
  double seconds = 1.0;  // of each round
};

/// One piece of work.
struct WorkSpeed {
  std::string work;  // "action chunk" or "training step"
  std::int64_t batch_size = 0;
  std::string precision;         // of its products: "float32", "bf16", ...
  std::vector<double> rounds_s;  // mean seconds of each round
  double flop = 0.0;             // of its products
  double weight_bytes = 0.0;     // that a chunk reads if each denoising step reads all weights
  double limit_s = 0.0;  // the longer of flop at the machine's rate and of reading weight_bytes
};

struct PolicyBench {
  std::string policy;
  std::string task;
  std::string device;
  std::int64_t n_parameters = 0;
  MachineLimits limits;
  std::vector<WorkSpeed> rows;
};

/// Measures initial weights on random observations. A training step is that of `dp_bench train`:
/// loss, gradients, optimizer, EMA.
PolicyBench BenchPolicy(const task::Experiment& experiment, const PolicyBenchOptions& options);

/// A table for the terminal. Ends with a line break.
std::string ToText(const PolicyBench& bench);

/// The same figures, with all rounds; times in ms.
nlohmann::json ToJson(const PolicyBench& bench);

}  // namespace dp_bench::profile
