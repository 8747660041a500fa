// The peak rates of this machine, measured in the same minute as the code they are compared with.
#pragma once

#include <torch/types.h>

namespace dp_bench::inspect {

struct MachineLimits {
  int n_threads = 0;              // of LibTorch
  double float32_flops = 0.0;     // of a square matrix product [FLOP/s]
  double bfloat16_flops = 0.0;    // the same in bfloat16
  double bytes_per_second = 0.0;  // a = b + s c over arrays larger than the caches (STREAM triad)
};

/// Takes about 0.5 s on a CPU, with LibTorch's current number of threads.
MachineLimits MeasureMachineLimits(torch::Device device);

}  // namespace dp_bench::inspect
