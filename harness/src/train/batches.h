// The batches of a policy: converted from the loader's, or random numbers to try a policy without a
// dataset.
#pragma once

#include <cstdint>

#include "data/loader.h"
#include "dp_bench/policy.h"
#include "dp_bench/spec.h"
#include "dp_bench/tensor.h"
#include "train/train_config.h"

namespace dp_bench::train {

/// For the batches that `policy` trains on.
data::BatchLoaderOptions LoaderOptions(const Policy& policy, const DataLoaderConfig& config);

/// Uses ObsToDevice and ToDevice; is_pad becomes bool. `host` must outlive a batch on the CPU.
Batch ToBatch(const data::HostBatch& host, const ShapeMeta& shape_meta, torch::Device device);

/// `n_obs_steps` steps of each observation, which PredictAction takes, from step `first` on. Shares
/// memory.
TensorMap ObservedSteps(const TensorMap& obs, std::int64_t n_obs_steps, std::int64_t first = 0);

/// The purpose of the rows' noise. Streams of different purposes never overlap.
enum class NoisePurpose : std::uint64_t { kTraining = 0, kValidation = 1, kSampling = 2 };

/// One key per row: (seed, purpose and `number`, row). `number` is the global step in training.
/// Several processes may share a batch: the rows start at `first_row` of it.
NoiseSource BatchNoise(std::uint64_t seed, NoisePurpose purpose, std::uint64_t number,
                       std::int64_t n_rows, std::int64_t first_row = 0);

/// Low-dimensional keys and the action are N(0, 1), rgb is 0 to 255, depth 0 to 2 m (uint16 in mm);
/// no step is padding. Row i depends only on i. ToBatch converts it to tensors. The observations
/// have To steps, or n_train_obs_steps of a policy.
data::HostBatch SyntheticBatch(const PolicySpec& spec, std::int64_t n_rows);
data::HostBatch SyntheticBatch(const Policy& policy, std::int64_t n_rows);

}  // namespace dp_bench::train
