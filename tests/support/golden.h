// Reference numbers from tests/golden, read once per program.
#pragma once

#include <map>
#include <string>

#include "run/safetensors.h"

namespace dp_bench {

/// tests/golden/<name>.safetensors. For single-threaded test programs.
inline const run::Safetensors& Golden(const std::string& name) {
  static std::map<std::string, run::Safetensors> files;
  const auto found = files.find(name);
  if (found != files.end()) return found->second;
  return files[name] =
             run::ReadSafetensors(DPB_SOURCE_DIR "/tests/golden/" + name + ".safetensors");
}

}  // namespace dp_bench
