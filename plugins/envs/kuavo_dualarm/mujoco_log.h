// MuJoCo's messages. A MuJoCo error ends the process, so the message names the episode and the
// scene.
#pragma once

#include <cstdint>
#include <string>

namespace dp_bench::kuavo_dualarm {

/// Errors go to stderr and abort. Warnings are dropped, because mjData counts those of a simulation
/// and the env checks the counts. Without this, MuJoCo also writes MUJOCO_LOG.TXT into the working
/// folder. Applies to the whole process; further calls do nothing.
void InstallMujocoLog();

/// Names the episode that the calling thread simulates, while this object exists.
class MujocoLogScope {
 public:
  /// `scene` must outlive it.
  MujocoLogScope(const std::string& scene, std::uint64_t seed);
  MujocoLogScope(const MujocoLogScope&) = delete;
  MujocoLogScope& operator=(const MujocoLogScope&) = delete;
  ~MujocoLogScope();
};

}  // namespace dp_bench::kuavo_dualarm
