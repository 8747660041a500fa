// The JSON files of a LeRobot policy: config and processors.
#include "fuzz.h"
#include "run/lerobot/policy_config.h"
#include "run/lerobot/policy_folder.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts([&] { ToJson(run::ParseLerobotPolicyConfig(input.text(), "config.json")); });
  for (const char* step : {"normalizer_processor", "unnormalizer_processor"}) {
    fuzz::Accepts([&] { run::ParseLerobotProcessor(input.text(), "policy.json", step); });
  }
}
