// The reference numbers of tests/golden/generate/data.py.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>

namespace dp_bench::testing {

inline nlohmann::json DataGolden() {
  std::ifstream file(DPB_SOURCE_DIR "/tests/golden/data.json");
  return nlohmann::json::parse(file);
}

}  // namespace dp_bench::testing
