// Where tensors live, and how host arrays get there.
#pragma once

#include <torch/types.h>

#include <string>

#include "dp_bench/array.h"
#include "dp_bench/spec.h"
#include "dp_bench/tensor.h"

namespace dp_bench::core {

/// "cpu", "cuda", "cuda:1" or another type of device that LibTorch has. For one that is not the
/// CPU, LibTorch takes from now on algorithms that give equal bits each time, and warns of an
/// operator that has none; float32 products are not rounded to TF32. Throws Error{kConfig} when the
/// name cannot be parsed or this machine or this LibTorch does not have the device: there is no
/// silent fallback.
torch::Device OpenDevice(const std::string& name);

/// On the CPU the array's own memory, which must outlive the tensor and must not be written
/// through it. Elsewhere a copy, by way of page-locked memory: the processor goes on while it
/// travels, and the array can be reused at once.
torch::Tensor ToDevice(const Array& array, torch::Device device);

/// ToDevice of every key of `shape_meta`: [B, To, shape...]. Images travel as they are stored,
/// [B, To, H, W, C], and become views [B, To, C, H, W]. Throws Error{kShape} for a key that `obs`
/// lacks.
TensorMap ObsToDevice(const ArrayMap& obs, const ShapeMeta& shape_meta, torch::Device device);

/// Whether the memory of the CPU or of another device was used up. LibTorch has a type of its own
/// for the latter alone.
bool IsOutOfMemory(const c10::Error& error);

/// Returns when the device has done all that it was asked for: to be called where time is taken,
/// because a GPU is asked long before it works. Nothing to wait for on the CPU.
void Synchronize(torch::Device device);

}  // namespace dp_bench::core
