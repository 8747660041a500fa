// A device in the place of a GPU, on a machine that has none.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace dp_bench {

/// "hpu" in configs: computes with the CPU's operators on memory that nothing else may touch. To
/// read a tensor of it through its pointer ends the process, as on a GPU; an operator that is given
/// tensors of two devices throws c10::Error (a number, dim 0, may come from the CPU). What a GPU
/// has beside that is not imitated: no streams, no kernels, no rounding of its own. The library
/// that this is in registers it when it is loaded, also by LD_PRELOAD.
c10::Device DistantDevice();

/// How many times somebody waited until the device had done its work.
std::int64_t DistantDeviceWaits();

}  // namespace dp_bench
