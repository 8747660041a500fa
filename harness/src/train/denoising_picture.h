// The picture of how sampled action chunks emerge from noise, beside the recorded ones. Includes
// LibTorch.
#pragma once

#include <torch/types.h>

#include "dp_bench/env.h"
#include "train/sampling_trace.h"

namespace dp_bench::train {

/// A row of panels for each of the first rows of a batch: samples of the reverse process from the
/// noise to the result, then the recorded chunk. A panel has a curve for each dimension over the
/// steps of the chunk, in normalized units. Pale curves behind the samples are the recorded ones.
/// `recorded`: [B, T, Da], normalized. The trace must not be empty.
RgbImage DrawDenoising(const SamplingTrace& trace, const torch::Tensor& recorded);

}  // namespace dp_bench::train
