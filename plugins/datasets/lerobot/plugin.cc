// The only export of the plugin.
#include "dp_bench/plugin.h"

#include <system_error>

#include "lerobot_dataset.h"

namespace {

bool IsLeRobot(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path / "meta/info.json", error);
}

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Dataset, "lerobot", "1.0.0", &dp_bench::lerobot::LeRobotDataset::Create,
                  &IsLeRobot)
