// Headless OpenGL: contexts without a display server or a window. It tries EGL first (a GPU's
// driver, else Mesa on the CPU), then OSMesa. Both are opened at run time, so machines that never
// render need neither.
#pragma once

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

/// A system that works on this machine, or the reason why there is none.
struct GlAttempt {
  std::unique_ptr<GlSystem> system;
  std::string reason;  // if `system` is null
};
GlAttempt TryEgl();
GlAttempt TryOsmesa();

/// The system of this process, chosen on first use; MuJoCo can use only one. $MUJOCO_GL (egl or
/// osmesa) restricts the choice. $MUJOCO_EGL_DEVICE_ID selects an EGL device by index. Throws
/// Error{kEnv} with the reason of each if none works, for another value of $MUJOCO_GL, and in a
/// process that was forked from the one that chose: it lacks the threads of the driver.
GlSystem& HeadlessGl();

}  // namespace dp_bench::mujoco
