// A Parquet file, as each of those of a LeRobot dataset: tasks, episodes, and the rows with
// numbers and images.
#include "lerobot_folder.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  static const fuzz::LeRobotFolder v30("v30_images");
  static const fuzz::LeRobotFolder v21("v21_images");
  v30.ReadWith("meta/tasks.parquet", input.bytes());
  v30.ReadWith("meta/episodes/chunk-000/file-000.parquet", input.bytes());
  v21.ReadWith("data/chunk-000/episode_000000.parquet", input.bytes());
}
