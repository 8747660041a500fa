// MuJoCo's render contexts of one thread: textures, shapes and buffers in OpenGL memory. An env
// moves between worker threads, so OpenGL objects belong to the thread instead of the env.
#pragma once

#include <mujoco/mujoco.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "dp_bench/mujoco/renderer.h"

namespace dp_bench::mujoco {

/// Identifies the textures and shapes of a model, which are the parts that a render context copies.
/// Copies of a model have equal ids, whatever their colours, lights and cameras.
std::uint64_t AssetKey(const mjModel& model);

/// One context, and the memory for its images.
struct RenderContext {
  mjrContext mujoco;
  std::vector<std::uint8_t> rgba;  // [height * width * 4], rows from the bottom
  std::vector<float> depth;        // [height * width], rows from the bottom
};

/// The turn to use OpenGL: while a thread holds it, no other thread of the process uses OpenGL.
/// Every OpenGL call needs it: to draw, finish, read, make, resize and free, and to make a context
/// current. Mesa's software renderer inspects the draws of all other threads' contexts without a
/// lock (22.3: llvmpipe_is_resource_referenced, when an image is read and when a shadow map that
/// was just drawn is sampled), and crashes if they change meanwhile. It already draws with all
/// cores. NVIDIA's driver draws eight times as fast in turns as when four threads draw together
/// (docs/benchmarks.md). Not recursive.
class GlTurn {
 public:
  /// Waits for the turn. Throws Error{kEnv} if the machine cannot render.
  GlTurn();

 private:
  std::unique_lock<std::mutex> lock_;
};

/// The calling thread's context for these assets, at least `width` x `height` in size. OpenGL calls
/// use it until the next call of this function. It is freed when the thread ends. Throws
/// Error{kEnv} if the machine cannot render.
RenderContext& ThreadRenderContext(const GlTurn& turn, const mjModel& model,
                                   std::uint64_t asset_key, const RenderSettings& settings,
                                   int width, int height);

}  // namespace dp_bench::mujoco
