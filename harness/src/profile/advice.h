// The config changes that the figures of a profile suggest.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dp_bench::profile {

struct Advice {
  std::string key;     // "dataloader.num_workers"
  std::string value;   // "2"
  std::string reason;  // with the figure behind it
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Advice, key, value, reason)

/// The figures that the advice is based on. Shares are fractions of a step's time.
struct TrainingFigures {
  double data_share = 0.0;     // waiting for the loader
  double fixed_share = 0.0;    // optimizer and EMA, which do not grow with the batch
  double product_share = 0.0;  // operators that compute products
  std::int64_t batch_size = 0;
  int num_workers = 0;  // dataloader.num_workers
  int n_cores = 0;
  double flops = 0.0;            // achieved [FLOP/s]
  double float32_limit = 0.0;    // measured [FLOP/s]
  double bfloat16_limit = 0.0;   // measured [FLOP/s]
  bool is_float32 = true;        // training.mixed_precision is no
  double needed_bytes = 0.0;     // including everything held between steps
  double available_bytes = 0.0;  // free memory; 0: unknown

  /// Whether a step takes most of the free memory.
  bool is_memory_short() const;
};

/// The most important first; empty if no figure suggests a change.
std::vector<Advice> AdviseTraining(const TrainingFigures& figures);

}  // namespace dp_bench::profile
