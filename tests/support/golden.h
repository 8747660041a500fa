// Reference numbers under tests/golden, read once per program.
#pragma once

#include <map>
#include <string>

#include "checkpoint/safetensors.h"

namespace dp_bench {

/// tests/golden/<name>.safetensors. For the single thread of a test program.
inline const Safetensors& Golden(const std::string& name) {
  static std::map<std::string, Safetensors> files;
  const auto found = files.find(name);
  if (found != files.end()) return found->second;
  return files[name] = ReadSafetensors(DPB_SOURCE_DIR "/tests/golden/" + name + ".safetensors");
}

}  // namespace dp_bench
