// The products of product_kernels.h in int8.
#pragma once

#include <cstdint>

#include "policy/kernels/product_kernels.h"

namespace dp_bench::policy {

/// Whether a weight with so many columns for each source is large enough for int8 to pay, and its
/// sums are small enough for 32 bits.
bool FitsInt8(const MatrixView& w, std::int64_t n_sources);

PackedWeight PackInt8Panels(const MatrixView& w);
PackedWeight PackInt8Rows(const MatrixView& w, std::int64_t n_sources);

void RunInt8(const RowsByWeight& args, const PackedWeight& w, int n_threads);
void RunInt8(const WeightByColumns& args, const PackedWeight& w, int n_threads);

}  // namespace dp_bench::policy
