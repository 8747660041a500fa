// Devices for tensors, and the copy of host arrays to them.
#pragma once

#include <ATen/Context.h>
#include <torch/types.h>

#include <string>

#include "dp_bench/array.h"
#include "dp_bench/spec.h"
#include "dp_bench/tensor.h"

namespace dp_bench::policy {

/// "cpu", "cuda", "cuda:1" or another device type that LibTorch has. For a device other than the
/// CPU, LibTorch then uses deterministic algorithms and warns about operators that have none, and
/// float32 products are not rounded to TF32. Throws Error{kConfig} if the name cannot be parsed or
/// the device is not available: there is no silent fallback.
torch::Device OpenDevice(const std::string& name);

/// While it exists, a CUDA device uses the kernels that are fast for small products and attention
/// without gradients: a chunk of the transformer takes a third of the time. Does nothing on other
/// devices.
class PlanningKernels {
 public:
  explicit PlanningKernels(torch::Device device);
  PlanningKernels(const PlanningKernels&) = delete;
  PlanningKernels& operator=(const PlanningKernels&) = delete;
  ~PlanningKernels();

 private:
  bool is_on_;
  bool was_efficient_;
  at::BlasBackend blas_before_;
};

/// On the CPU: a view of the array's memory, which must outlive the tensor and must not be written
/// through it. Elsewhere: a copy by way of page-locked memory. The call does not wait for the copy,
/// and the array can be reused at once.
torch::Tensor ToDevice(const Array& array, torch::Device device);

/// ToDevice for every key of `shape_meta`: [B, To, shape...]. Images are copied as they are stored,
/// [B, To, H, W, C], and returned as views [B, To, C, H, W]. Throws Error{kShape} if `obs` lacks a
/// key.
TensorMap ObsToDevice(const ArrayMap& obs, const ShapeMeta& shape_meta, torch::Device device);

/// Whether the CPU or another device ran out of memory. LibTorch has a separate exception type only
/// for the latter.
bool IsOutOfMemory(const c10::Error& error);

/// Whether the device multiplies matrices of bfloat16 numbers faster than float32 ones: an x86-64
/// processor with AVX512_BF16 or AMX, a CUDA device of compute capability 8.0 or higher. False for
/// other devices.
bool HasFastBfloat16(torch::Device device);

/// Waits until the device has finished all queued work. Call it where time is measured, because GPU
/// work is asynchronous. Does nothing on the CPU.
void Synchronize(torch::Device device);

/// Ends the helper threads that LibTorch (OpenMP) keeps for the calling thread. They count as busy:
/// with those of another thread, libgomp sees more threads than cores, and puts every one to sleep
/// at each barrier. A thread that plans took 2.3 times as long while the one that had loaded the
/// policy kept its own.
void ReleaseHelperThreads();

}  // namespace dp_bench::policy
