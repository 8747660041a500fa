// From what the loader gathers to what a policy takes.
#pragma once

#include <cstdint>
#include <vector>

#include "data/loader.h"
#include "dp_bench/policy.h"
#include "dp_bench/spec.h"
#include "dp_bench/tensor.h"

namespace dp_bench {

/// Images [B, To, H, W, C] become views [B, To, C, H, W], is_pad becomes bool. On the CPU the
/// tensors share memory with `host`, which must outlive them; on another device they are copies.
Batch ToBatch(HostBatch& host, const ShapeMeta& shape_meta, torch::Device device);

/// The first `n_rows` rows, sharing memory; all of them when there are fewer.
Batch FirstRows(const Batch& batch, std::int64_t n_rows);

/// "cpu", "cuda", "cuda:1". Throws Error{kConfig} when it cannot be parsed or this machine or this
/// LibTorch does not have it: there is no silent fallback.
torch::Device ParseDevice(const std::string& name);

/// What the rows' noise is for; streams of different purposes never meet.
enum class NoisePurpose : std::uint64_t { kTraining = 0, kValidation = 1, kSampling = 2 };

/// One key per row: (seed, purpose and `number`, row). `number`: the global step in training. The
/// rows are `first_row` and those behind it of a batch that several processes share.
NoiseSource BatchNoise(std::uint64_t seed, NoisePurpose purpose, std::uint64_t number,
                       std::int64_t n_rows, std::int64_t first_row = 0);

}  // namespace dp_bench
