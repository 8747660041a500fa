// The JSON files of a LeRobot policy: config and processors.
#include "fuzz.h"
#include "interop/policy_config.h"
#include "interop/policy_folder.h"

using namespace dp_bench;

DPB_FUZZ(input) {
  fuzz::Accepts([&] { ToJson(interop::ParseLerobotPolicyConfig(input.text(), "config.json")); });
  for (const char* step : {"normalizer_processor", "unnormalizer_processor"}) {
    fuzz::Accepts([&] { interop::ParseLerobotProcessor(input.text(), "policy.json", step); });
  }
}
