// MuJoCo's render contexts of one thread: textures, shapes and buffers in OpenGL memory. An env
// moves between the worker threads, so what belongs to OpenGL belongs to the thread instead.
#pragma once

#include <mujoco/mujoco.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace dp_bench::kuavo_dualarm {

/// How finely pictures are drawn.
struct RenderSettings {
  int shadow_size = 1024;  // side of the shadow map [px]; 0 draws no shadows
  int samples = 0;         // multisamples per pixel; 0 or 1 is none
  int slices = 16;         // flat faces around a ball or cylinder
  bool operator==(const RenderSettings&) const = default;
};

/// For pictures that people look at. They take several times as long as the default, a policy's.
inline constexpr RenderSettings kSmooth = {.shadow_size = 2048, .samples = 4, .slices = 32};

/// Identifies the textures and shapes of a model, the parts that a render context copies. Equal
/// for copies of a model, whatever their colours, lights and cameras.
std::uint64_t AssetKey(const mjModel& model);

/// One context and the memory that its pictures are read into.
struct RenderContext {
  mjrContext mujoco;
  std::vector<std::uint8_t> rgba;  // [height * width * 4], rows from the bottom
  std::vector<float> depth;        // [height * width], rows from the bottom
};

/// The turn to use OpenGL: while a thread has it, no other thread of the process does. Every OpenGL
/// call needs it: to draw, finish, read, make, resize and free, and to make a context current.
/// Mesa's software renderer looks through what the contexts of all other threads draw without a
/// lock of theirs (22.3: llvmpipe_is_resource_referenced, when a picture is read and when a shadow
/// map that was just drawn is sampled) and crashes when they change it. It draws with all cores by
/// itself. Where a GPU draws, the turns are free and threads draw side by side. Not recursive.
class GlTurn {
 public:
  /// Waits for the turn. Throws Error{kEnv} when the machine cannot render.
  GlTurn();

 private:
  std::unique_lock<std::mutex> lock_;
};

/// The calling thread's context for these assets, at least `width` x `height` in size; OpenGL calls
/// go to it until the next call of this function. It is freed when the thread ends. Throws
/// Error{kEnv} when the machine cannot render.
RenderContext& ThreadRenderContext(const GlTurn& turn, const mjModel& model,
                                   std::uint64_t asset_key, const RenderSettings& settings,
                                   int width, int height);

}  // namespace dp_bench::kuavo_dualarm
