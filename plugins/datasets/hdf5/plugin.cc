// The only export of the plugin.
#include "dp_bench/plugin.h"

#include "hdf5_dataset.h"

DPB_EXPORT_PLUGIN(dp_bench::Dataset, "hdf5", "1.0.0", &dp_bench::hdf5::Hdf5Dataset::Create)
