// From what the loader gathers to what a policy takes.
#pragma once

#include <cstdint>
#include <vector>

#include "data/loader.h"
#include "dp_bench/policy.h"
#include "dp_bench/spec.h"
#include "dp_bench/tensor.h"

namespace dp_bench::train {

/// As ObsToDevice and ToDevice, is_pad as bool: `host` must outlive a batch on the CPU.
Batch ToBatch(const data::HostBatch& host, const ShapeMeta& shape_meta, torch::Device device);

/// The first `n_rows` rows, sharing memory; all of them when there are fewer.
Batch FirstRows(const Batch& batch, std::int64_t n_rows);

/// What the rows' noise is for; streams of different purposes never meet.
enum class NoisePurpose : std::uint64_t { kTraining = 0, kValidation = 1, kSampling = 2 };

/// One key per row: (seed, purpose and `number`, row). `number`: the global step in training. The
/// rows are `first_row` and those behind it of a batch that several processes share.
NoiseSource BatchNoise(std::uint64_t seed, NoisePurpose purpose, std::uint64_t number,
                       std::int64_t n_rows, std::int64_t first_row = 0);

}  // namespace dp_bench::train
