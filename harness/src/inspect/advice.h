// Which config keys the figures of a profile speak for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dp_bench::inspect {

/// The figures of a training that advice rests on. Shares are fractions of a step's time.
struct TrainingFigures {
  double data_share = 0.0;     // waiting for the loader
  double fixed_share = 0.0;    // optimiser and EMA, which do not grow with the batch
  double product_share = 0.0;  // operators that compute products
  std::int64_t batch_size = 0;
  int num_workers = 0;  // dataloader.num_workers
  int n_cores = 0;
  double flops = 0.0;           // achieved [FLOP/s]
  double float32_limit = 0.0;   // measured [FLOP/s]
  double bfloat16_limit = 0.0;  // measured [FLOP/s]
  bool is_float32 = true;       // training.mixed_precision is no
  bool is_checkpointing = false;
  double activation_bytes = 0.0;  // of a step
  double needed_bytes = 0.0;      // with all that is held between steps
  double available_bytes = 0.0;   // of memory that is free; 0: unknown
};

struct Advice {
  std::string key;     // "dataloader.num_workers"
  std::string value;   // "2"
  std::string reason;  // with the figure that led to it
};

/// The weightiest first; empty when no figure speaks for a change.
std::vector<Advice> AdviseTraining(const TrainingFigures& figures);

}  // namespace dp_bench::inspect
