// tests/golden/compare.json, made by tests/golden/generate/compare.py.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>

namespace dp_bench {

/// Read once per program. For the single thread of a test program.
inline const nlohmann::json& CompareGolden() {
  static const nlohmann::json golden = [] {
    std::ifstream file(DPB_SOURCE_DIR "/tests/golden/compare.json");
    return nlohmann::json::parse(file);
  }();
  return golden;
}

}  // namespace dp_bench
