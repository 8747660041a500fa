// The model of a GPU, as CUDA's driver names it (CUDA Driver API, cuDeviceGetName).
#pragma once

#include <optional>
#include <string>

namespace dp_bench::core {

/// Such as "NVIDIA H200". `index`: among the GPUs that this process may use, as in "cuda:1". None
/// without the driver's library or without such a GPU.
std::optional<std::string> GpuName(int index, const char* library = "libcuda.so.1");

}  // namespace dp_bench::core
