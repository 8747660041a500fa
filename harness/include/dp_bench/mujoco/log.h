// MuJoCo's messages. A MuJoCo error ends the process, so the message names the episode and the
// scene. Link dp_bench::mujoco.
#pragma once

#include <cstdint>
#include <string>

#include "dp_bench/export.h"

namespace dp_bench::mujoco {

/// Errors go to stderr and abort. Warnings are dropped, because mjData counts those of a simulation
/// and the env checks the counts. Without this, MuJoCo also writes MUJOCO_LOG.TXT into the working
/// folder. Applies to the whole process; further calls do nothing. LoadModel calls it.
DPB_API void InstallLog();

/// Names the episode that the calling thread simulates, while this object exists.
class DPB_API LogScope {
 public:
  /// `scene` must outlive it.
  LogScope(const std::string& scene, std::uint64_t seed);
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;
  ~LogScope();
};

}  // namespace dp_bench::mujoco
