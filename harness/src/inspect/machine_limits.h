// What this machine can do at most, measured in the same minute as what it is compared with.
#pragma once

#include <torch/types.h>

namespace dp_bench::inspect {

struct MachineLimits {
  int n_threads = 0;              // of LibTorch
  double float32_flops = 0.0;     // of a square matrix product [FLOP/s]
  double bfloat16_flops = 0.0;    // the same in bfloat16
  double bytes_per_second = 0.0;  // a = b + s c over arrays beyond the caches (STREAM triad)
};

/// Takes some 0.5 s on a CPU, with as many threads as LibTorch has now.
MachineLimits MeasureMachineLimits(torch::Device device);

}  // namespace dp_bench::inspect
