// How fast this machine multiplies matrices and reads memory.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace dp_bench::profile {

/// The peak rates of this machine, measured in the same minute as the code they are compared with.
struct MachineLimits {
  int n_threads = 0;            // of LibTorch
  double float32_flops = 0.0;   // of a square matrix product [FLOP/s]
  double bfloat16_flops = 0.0;  // the same in bfloat16
  double int8_flops = 0.0;      // the same in int8, on a CPU
};

/// Takes about 0.5 s on a CPU, with LibTorch's current number of threads.
MachineLimits MeasureMachineLimits(c10::Device device);

/// How fast LibTorch's threads sum a tensor of so many bytes over and over [bytes/s]. A small
/// tensor stays in the cache, as the weights of a small network do.
double MeasureReadRate(c10::Device device, std::int64_t n_bytes);

}  // namespace dp_bench::profile
