// A batch of random numbers in the shapes of a run, to try a policy without a data set.
#pragma once

#include <cstdint>

#include "data/loader.h"
#include "dp_bench/policy.h"

namespace dp_bench::train {

/// Low-dimensional keys and the action are N(0, 1), rgb is 0 to 255, depth 0 to 2 m (uint16 in mm);
/// no step is padding. Row i depends only on i. ToBatch converts it to tensors. The observations
/// have To steps, or n_train_obs_steps of a policy.
data::HostBatch SyntheticBatch(const PolicySpec& spec, std::int64_t n_rows);
data::HostBatch SyntheticBatch(const Policy& policy, std::int64_t n_rows);

}  // namespace dp_bench::train
