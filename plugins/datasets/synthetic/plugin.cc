// The entry of the dataset plugin `synthetic`, the one symbol that the library exports.
#include "dp_bench/plugin.h"

#include "synthetic_dataset.h"

namespace {

std::unique_ptr<dp_bench::Dataset> Create(const dp_bench::Config& params) {
  return std::make_unique<dp_bench::synthetic::SyntheticDataset>(params);
}

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Dataset, "synthetic", "1.0.0", Create)
