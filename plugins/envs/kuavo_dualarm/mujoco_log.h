// What MuJoCo prints. An error of its own ends the process, so the message says in which episode of
// which scene that was.
#pragma once

#include <cstdint>
#include <string>

namespace dp_bench::kuavo_dualarm {

/// Errors go to stderr and abort; warnings are dropped: those of a simulation are counted in
/// mjData, where the env looks for them. Without this MuJoCo also writes MUJOCO_LOG.TXT into the
/// working folder. For the whole process; further calls do nothing.
void InstallMujocoLog();

/// Names the episode that the calling thread simulates, as long as it lives.
class MujocoLogScope {
 public:
  /// `scene` must outlive it.
  MujocoLogScope(const std::string& scene, std::uint64_t seed);
  MujocoLogScope(const MujocoLogScope&) = delete;
  MujocoLogScope& operator=(const MujocoLogScope&) = delete;
  ~MujocoLogScope();
};

}  // namespace dp_bench::kuavo_dualarm
