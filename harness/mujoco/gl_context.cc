#include "gl_context.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "dp_bench/error.h"

namespace dp_bench::mujoco {
namespace {

std::unique_ptr<GlSystem> FindSystem() {
  const char* const variable = std::getenv("MUJOCO_GL");
  const std::string_view wanted = variable == nullptr ? "" : variable;
  if (wanted != "" && wanted != "egl" && wanted != "osmesa") {
    throw Error(ErrorCode::kEnv,
                fmt::format("MUJOCO_GL is '{}', but images are drawn without a display by 'egl' "
                            "or 'osmesa'; set one of these, or unset it",
                            wanted));
  }

  std::string reasons;
  if (wanted != "osmesa") {
    reasons += "\n  EGL: ";
    if (auto egl = TryEgl(&reasons)) return egl;
  }
  if (wanted != "egl") {
    reasons += "\n  OSMesa: ";
    if (auto osmesa = TryOsmesa(&reasons)) return osmesa;
  }
  throw Error(ErrorCode::kEnv, "cannot render: this machine offers no headless OpenGL" + reasons +
                                   "\ninstall Mesa (scripts/setup.sh does), or observe `state`");
}

}  // namespace

GlSystem& HeadlessGl() {
  // never destroyed: threads may end, and free their contexts, after static objects are gone
  static GlSystem& system = *FindSystem().release();
  static const pid_t process_id = ::getpid();
  if (::getpid() != process_id) {
    throw Error(ErrorCode::kEnv,
                "cannot render: this process was forked from one that had drawn an image, and has "
                "no threads to draw with; start processes another way (in Python: 'spawn' or "
                "'forkserver'), or before the first image");
  }
  return system;
}

}  // namespace dp_bench::mujoco
