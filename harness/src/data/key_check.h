// Whether a dataset holds what an experiment trains on.
#pragma once

#include "dp_bench/dataset.h"
#include "dp_bench/spec.h"

namespace dp_bench::data {

/// Every key of `shape_meta`, the action included, must be in the dataset with the same type and
/// shape, images also with the same dtype (numbers become float32 anyway). Else Error{kShape} lists
/// both sides.
void RequireKeys(const DatasetSpec& dataset, const ShapeMeta& shape_meta);

}  // namespace dp_bench::data
