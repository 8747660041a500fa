#include "dp_bench/mujoco/log.h"

#include <mujoco/mujoco.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace dp_bench::mujoco {
namespace {

struct Episode {
  const char* scene = nullptr;
  std::uint64_t seed = 0;
};
thread_local Episode episode;

void HandleLog(const mjLogMessage* message) {
  if (message->level != mjLOG_ERROR) return;
  if (episode.scene == nullptr) {
    std::fprintf(stderr, "MuJoCo: %s\n", message->subject);
  } else {
    std::fprintf(stderr, "MuJoCo: %s (in %s, episode with seed %" PRIu64 ")\n", message->subject,
                 episode.scene, episode.seed);
  }
  // MuJoCo would continue with a broken simulation, and an exception must not cross its C frames
  std::abort();
}

}  // namespace

void InstallLog() {
  static const mjfLogHandler previous = mju_setLogHandler(HandleLog);
  static_cast<void>(previous);
}

LogScope::LogScope(const std::string& scene, std::uint64_t seed) {
  episode = {scene.c_str(), seed};
}

LogScope::~LogScope() { episode = {}; }

}  // namespace dp_bench::mujoco
