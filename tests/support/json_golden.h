// Reference numbers from tests/golden in JSON, read once per program.
#pragma once

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace dp_bench {

/// tests/golden/<name>.json, made by tests/golden/generate. For single-threaded test programs.
inline const nlohmann::json& JsonGolden(const std::string& name) {
  static std::map<std::string, nlohmann::json> files;
  const auto found = files.find(name);
  if (found != files.end()) return found->second;
  std::ifstream file(DPB_SOURCE_DIR "/tests/golden/" + name + ".json");
  return files[name] = nlohmann::json::parse(file);
}

}  // namespace dp_bench
