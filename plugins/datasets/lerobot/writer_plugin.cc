// The only export of the writer's plugin.
#include "data/lerobot/writer.h"
#include "dp_bench/plugin.h"

DPB_EXPORT_PLUGIN(dp_bench::DatasetWriter, "lerobot", "1.0.0",
                  &dp_bench::lerobot::LeRobotWriter::Create)
