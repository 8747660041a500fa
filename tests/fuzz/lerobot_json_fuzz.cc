// A JSON file of a LeRobot dataset, as each of those in meta/. Versions 2.1 and 3.0.
#include "lerobot_folder.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  static const fuzz::LeRobotFolder v21("v21_images");
  static const fuzz::LeRobotFolder v30("v30_images");
  for (const char* file : {"info.json", "tasks.jsonl", "episodes.jsonl", "episodes_stats.jsonl"}) {
    v21.ReadWith(std::string("meta/") + file, input.bytes());
  }
  for (const char* file : {"info.json", "stats.json"}) {
    v30.ReadWith(std::string("meta/") + file, input.bytes());
  }
}
