// Checks that a dataset has the keys that an experiment trains on, and describes what it has.
#pragma once

#include <span>
#include <string>

#include "dp_bench/dataset.h"
#include "dp_bench/spec.h"

namespace dp_bench::data {

/// Throws Error{kShape}, listing both sides, unless the dataset has every key of `shape_meta`,
/// including the action, with the same type and shape. Images must also have the same dtype;
/// numbers become float32 anyway.
void RequireKeys(const DatasetSpec& dataset, const ShapeMeta& shape_meta);

/// "rgb uint8 [3, 96, 96]".
std::string Describe(const KeySpec& key);

/// "action: low_dim float32 [2]; image: rgb uint8 [3, 96, 96]".
std::string Describe(std::span<const KeySpec> keys);

/// "30 Hz", or "rate unknown" for 0.
std::string RateText(double fps);

}  // namespace dp_bench::data
