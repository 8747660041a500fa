// OSMesa: OpenGL drawn by the CPU into memory, for machines whose EGL does not work. Mesa 25.1
// dropped it, so it is only the fallback.
#include <dlfcn.h>

#include <array>
#include <cstddef>

#include "dp_bench/error.h"
#include "gl_context.h"

namespace dp_bench::mujoco {
namespace {

// From GL/osmesa.h and GL/gl.h, version 8 of the library.
using OsmesaHandle = void*;
constexpr unsigned int kOsmesaRgba = 0x1908;
constexpr unsigned int kGlUnsignedByte = 0x1401;
constexpr int kDepthBits = 24;
constexpr int kStencilBits = 8;

struct OsmesaApi {
  OsmesaHandle (*Create)(unsigned int format, int depth_bits, int stencil_bits, int accum_bits,
                         OsmesaHandle shared);
  void (*Destroy)(OsmesaHandle);
  unsigned char (*MakeCurrent)(OsmesaHandle, void* buffer, unsigned int type, int width,
                               int height);
  OsmesaHandle (*GetCurrent)();
};

class OsmesaContext final : public GlContext {
 public:
  OsmesaContext(const OsmesaApi& osmesa, OsmesaHandle handle) : osmesa_(osmesa), handle_(handle) {}

  ~OsmesaContext() override { osmesa_.Destroy(handle_); }

  void MakeCurrent() override {
    if (osmesa_.GetCurrent() == handle_) {
      return;
    }
    if (osmesa_.MakeCurrent(handle_, window_.data(), kGlUnsignedByte, 1, 1) == 0) {
      throw Error(ErrorCode::kEnv, "cannot render on this thread: OSMesaMakeCurrent failed");
    }
  }

 private:
  const OsmesaApi& osmesa_;
  OsmesaHandle handle_;
  std::array<std::byte, 4> window_ = {};  // one pixel; nothing is drawn into it
};

class OsmesaSystem final : public GlSystem {
 public:
  explicit OsmesaSystem(const OsmesaApi& osmesa) : osmesa_(osmesa) {}

  const std::string& name() const override { return name_; }

  std::unique_ptr<GlContext> CreateContext() override {
    const OsmesaHandle handle =
        osmesa_.Create(kOsmesaRgba, kDepthBits, kStencilBits, /*accum_bits=*/0, nullptr);
    if (handle == nullptr) {
      throw Error(ErrorCode::kEnv, "OSMesa: no OpenGL context for this thread, out of memory");
    }
    auto owned = std::make_unique<OsmesaContext>(osmesa_, handle);
    owned->MakeCurrent();
    return owned;
  }

 private:
  OsmesaApi osmesa_;
  std::string name_ = "OSMesa";
};

}  // namespace

std::unique_ptr<GlSystem> TryOsmesa(std::string* reasons) {
  void* library = nullptr;
  for (const char* name : {"libOSMesa.so.8", "libOSMesa.so.6"}) {
    if (library == nullptr) {
      // global: MuJoCo looks up its OpenGL functions among the globally visible symbols
      library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
      if (library == nullptr) *reasons += std::string(dlerror()) + "; ";
    }
  }
  if (library == nullptr) return nullptr;
  OsmesaApi osmesa{};
  if (!LoadSymbol(library, "OSMesaCreateContextExt", &osmesa.Create) ||
      !LoadSymbol(library, "OSMesaDestroyContext", &osmesa.Destroy) ||
      !LoadSymbol(library, "OSMesaMakeCurrent", &osmesa.MakeCurrent) ||
      !LoadSymbol(library, "OSMesaGetCurrentContext", &osmesa.GetCurrent)) {
    *reasons += "libOSMesa lacks the functions of its version 6";
    return nullptr;
  }
  return std::make_unique<OsmesaSystem>(osmesa);
}

}  // namespace dp_bench::mujoco
