// A substitute for a GPU on a machine that has none.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace dp_bench {

/// "hpu" in configs: computes with the CPU's operators on memory that nothing else may access.
/// Reading one of its tensors through a pointer ends the process, as on a GPU. An operator with
/// tensors of two devices throws c10::Error (a number, dim 0, may be on the CPU). Other properties
/// of a GPU are not imitated: no work in the background, no kernels, no different rounding. The
/// library registers the device when it is loaded, also through LD_PRELOAD.
c10::Device DistantDevice();

/// The number of times a caller waited until the device had done its work.
std::int64_t DistantDeviceWaits();

/// The number of operators and copies that the host started, without those of replayed graphs. A
/// GPU needs a call for each.
std::int64_t DistantDeviceStarts();

}  // namespace dp_bench
