#include "render_context.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string_view>

#include "dp_bench/error.h"
#include "gl_context.h"

namespace dp_bench::mujoco {
namespace {

constexpr std::size_t kMaxContextsPerThread = 4;
constexpr int kGlRgba = 0x1908;  // Mesa copies whole pixels; GL_RGB would make it convert them

// MuJoCo counts the live contexts without a lock. Lock it after gl_mutex.
std::mutex context_count_mutex;
std::mutex gl_mutex;

class SceneContext {
 public:
  SceneContext(const mjModel& model, std::uint64_t asset_key, const RenderSettings& settings,
               int width, int height)
      : asset_key_(asset_key), settings_(settings) {
    // shares the model's arrays and changes only the image settings
    mjModel configured = model;
    configured.vis.global.offwidth = width;
    configured.vis.global.offheight = height;
    configured.vis.quality.shadowsize = settings.shadow_size;
    configured.vis.quality.offsamples = settings.samples;
    configured.vis.quality.numslices = settings.slices;
    configured.vis.quality.numstacks = settings.slices / 2;

    const std::lock_guard lock(context_count_mutex);
    mjr_defaultContext(&context_.mujoco);
    mjr_makeContext(&configured, &context_.mujoco, mjFONTSCALE_100);
    mjr_setBuffer(mjFB_OFFSCREEN, &context_.mujoco);
    context_.mujoco.readPixelFormat = kGlRgba;
    context_.mujoco.readDepthMap = mjDEPTH_ZEROFAR;  // the stored format
  }

  SceneContext(const SceneContext&) = delete;
  SceneContext& operator=(const SceneContext&) = delete;

  ~SceneContext() {
    const std::lock_guard lock(context_count_mutex);
    mjr_freeContext(&context_.mujoco);
  }

  bool Is(std::uint64_t asset_key, const RenderSettings& settings) const {
    return asset_key_ == asset_key && settings_ == settings;
  }

  // The size only grows, so envs with different images do not evict each other's context.
  RenderContext& AtLeast(int width, int height) {
    mjrContext& mujoco = context_.mujoco;
    if (mujoco.offWidth < width || mujoco.offHeight < height) {
      mjr_resizeOffscreen(std::max(mujoco.offWidth, width), std::max(mujoco.offHeight, height),
                          &mujoco);
    }
    return context_;
  }

 private:
  std::uint64_t asset_key_;
  RenderSettings settings_;
  RenderContext context_;
};

// All OpenGL objects of one thread. The scenes are freed before their context.
class ThreadContexts {
 public:
  ThreadContexts() = default;
  ThreadContexts(const ThreadContexts&) = delete;
  ThreadContexts& operator=(const ThreadContexts&) = delete;

  ~ThreadContexts() {
    if (gl_ == nullptr) {
      return;
    }
    try {
      const GlTurn turn;
      gl_->MakeCurrent();
      scenes_.clear();
      gl_.reset();
    } catch (const Error&) {
      // the thread is ending and its context is unreachable: the end of the process frees it
      for (std::unique_ptr<SceneContext>& scene : scenes_) {
        static_cast<void>(scene.release());
      }
      static_cast<void>(gl_.release());
    }
  }

  // Needs the turn, as do the contexts of the scenes.
  RenderContext& Get(const mjModel& model, std::uint64_t asset_key, const RenderSettings& settings,
                     int width, int height) {
    if (gl_ == nullptr) gl_ = HeadlessGl().CreateContext();
    gl_->MakeCurrent();

    // most recently used first
    const auto found = std::find_if(scenes_.begin(), scenes_.end(), [&](const auto& scene) {
      return scene->Is(asset_key, settings);
    });
    if (found != scenes_.end()) {
      scenes_.splice(scenes_.begin(), scenes_, found);
    } else {
      Add(model, asset_key, settings, width, height);
    }
    return scenes_.front()->AtLeast(width, height);
  }

 private:
  void Add(const mjModel& model, std::uint64_t asset_key, const RenderSettings& settings, int width,
           int height) {
    if (scenes_.size() == kMaxContextsPerThread) {
      scenes_.pop_back();
    }
    scenes_.push_front(std::make_unique<SceneContext>(model, asset_key, settings, width, height));
  }

  std::unique_ptr<GlContext> gl_;
  std::list<std::unique_ptr<SceneContext>> scenes_;
};

// Hashes arrays one after the other.
class ArrayHash {
 public:
  template <typename T, typename Size>
  void Add(const T* values, Size count) {
    const std::string_view bytes(reinterpret_cast<const char*>(values),
                                 sizeof(T) * static_cast<std::size_t>(count));
    state_ =
        std::hash<std::string_view>()(bytes) + 0x9e3779b97f4a7c15U + (state_ << 6) + (state_ >> 2);
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace

std::uint64_t AssetKey(const mjModel& model) {
  ArrayHash hash;
  hash.Add(&model.vis.quality.numquads, 1);
  hash.Add(&model.vis.map, 1);
  hash.Add(&model.stat.extent, 1);
  // textures and their use in materials
  hash.Add(model.tex_type, model.ntex);
  hash.Add(model.tex_height, model.ntex);
  hash.Add(model.tex_width, model.ntex);
  hash.Add(model.tex_data, model.ntexdata);
  hash.Add(model.mat_texid, mjNTEXROLE * model.nmat);
  hash.Add(model.mat_texuniform, model.nmat);
  hash.Add(model.mat_texrepeat, 2 * model.nmat);
  // shapes: planes are tessellated by size and material
  hash.Add(model.geom_type, model.ngeom);
  hash.Add(model.geom_size, 3 * model.ngeom);
  hash.Add(model.geom_matid, model.ngeom);
  hash.Add(model.mesh_vert, 3 * model.nmeshvert);
  hash.Add(model.mesh_face, 3 * model.nmeshface);
  hash.Add(model.hfield_data, model.nhfielddata);
  hash.Add(model.skin_vert, 3 * model.nskinvert);
  return hash.value();
}

GlTurn::GlTurn() {
  HeadlessGl();  // throws outside of the turn
  lock_ = std::unique_lock(gl_mutex);
}

RenderContext& ThreadRenderContext(const GlTurn& /*turn*/, const mjModel& model,
                                   std::uint64_t asset_key, const RenderSettings& settings,
                                   int width, int height) {
  thread_local ThreadContexts contexts;
  return contexts.Get(model, asset_key, settings, width, height);
}

}  // namespace dp_bench::mujoco
