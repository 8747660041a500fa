// Headless OpenGL: contexts without a display server or a window. It tries EGL first (a GPU's
// driver, else Mesa on the CPU), then OSMesa. Both are opened at run time, so machines that never
// render need neither.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>

namespace dp_bench::mujoco {

/// An OpenGL context for one thread, which creates, uses and destroys it.
class GlContext {
 public:
  GlContext(const GlContext&) = delete;
  GlContext& operator=(const GlContext&) = delete;
  virtual ~GlContext() = default;

  /// Makes it the calling thread's context; cheap if it already is. Throws Error{kEnv} if the
  /// driver refuses, for example because a window's GLX context is current on this thread.
  virtual void MakeCurrent() = 0;

 protected:
  GlContext() = default;
};

/// The library that creates contexts; it stays open until the process ends.
class GlSystem {
 public:
  GlSystem(const GlSystem&) = delete;
  GlSystem& operator=(const GlSystem&) = delete;
  virtual ~GlSystem() = default;

  /// A name for messages: "EGL, Mesa surfaceless".
  virtual const std::string& name() const = 0;
  /// A context that is current on the calling thread. Throws Error{kEnv}.
  virtual std::unique_ptr<GlContext> CreateContext() = 0;

 protected:
  GlSystem() = default;
};

/// The system if it works on this machine; else null, and adds the reason.
std::unique_ptr<GlSystem> TryEgl(std::string* reasons);
std::unique_ptr<GlSystem> TryOsmesa(std::string* reasons);

/// A function of a library that was opened at run time. Sets it to null and returns false if the
/// library has no such symbol.
template <typename Function>
bool LoadSymbol(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

/// The system of this process, chosen on first use; MuJoCo can use only one. $MUJOCO_GL (egl or
/// osmesa) restricts the choice. $MUJOCO_EGL_DEVICE_ID selects an EGL device by index. Throws
/// Error{kEnv} with the reason of each if none works, for another value of $MUJOCO_GL, and in a
/// process that was forked from the one that chose: it lacks the threads of the driver.
GlSystem& HeadlessGl();

}  // namespace dp_bench::mujoco
