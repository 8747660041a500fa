// The only export of the plugin.
#include "dp_bench/plugin.h"

#include "lerobot_dataset.h"

DPB_EXPORT_PLUGIN(dp_bench::Dataset, "lerobot", "1.0.0", &dp_bench::lerobot::LeRobotDataset::Create)
