// The only export of the writer's plugin.
#include "data/hdf5/writer.h"
#include "dp_bench/plugin.h"

DPB_EXPORT_PLUGIN(dp_bench::DatasetWriter, "hdf5", "1.0.0", &dp_bench::hdf5::Hdf5Writer::Create)
