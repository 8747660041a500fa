// An MP4 file, as the video of a camera of a LeRobot dataset. The seeds are H.264, HEVC and AV1.
#include "lerobot_folder.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  static const fuzz::LeRobotFolder folder("v30_h264");
  folder.ReadWith("videos/observation.images.top/chunk-000/file-000.mp4", input.bytes());
}
