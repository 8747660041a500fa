// The only export of the plugin.
#include "dp_bench/plugin.h"

#include "zarr_replay_dataset.h"

DPB_EXPORT_PLUGIN(dp_bench::Dataset, "zarr_replay", "1.2.0",
                  &dp_bench::zarr_replay::ZarrReplayDataset::Create)
