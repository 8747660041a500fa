// EGL without surfaces: EGL 1.5 with EGL_EXT_platform_device (GPUs and Mesa's software device) or
// EGL_MESA_platform_surfaceless. MuJoCo draws into its own framebuffer object.
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "dp_bench/error.h"
#include "gl_context.h"

namespace dp_bench::mujoco {
namespace {

constexpr const char* kLibrary = "libEGL.so.1";
constexpr int kMaxDevices = 32;

// The functions of the library, which is opened at run time.
struct EglApi {
  decltype(&eglBindAPI) BindAPI;
  decltype(&eglChooseConfig) ChooseConfig;
  decltype(&eglCreateContext) CreateContext;
  decltype(&eglDestroyContext) DestroyContext;
  decltype(&eglGetCurrentContext) GetCurrentContext;
  decltype(&eglGetError) GetError;
  decltype(&eglGetPlatformDisplay) GetPlatformDisplay;
  decltype(&eglGetProcAddress) GetProcAddress;
  decltype(&eglInitialize) Initialize;
  decltype(&eglMakeCurrent) MakeCurrent;
  decltype(&eglQueryString) QueryString;
  decltype(&eglReleaseThread) ReleaseThread;
  decltype(&eglTerminate) Terminate;
};

std::optional<EglApi> LoadApi(void* library) {
  EglApi egl{};
  const bool complete = LoadSymbol(library, "eglBindAPI", &egl.BindAPI) &&
                        LoadSymbol(library, "eglChooseConfig", &egl.ChooseConfig) &&
                        LoadSymbol(library, "eglCreateContext", &egl.CreateContext) &&
                        LoadSymbol(library, "eglDestroyContext", &egl.DestroyContext) &&
                        LoadSymbol(library, "eglGetCurrentContext", &egl.GetCurrentContext) &&
                        LoadSymbol(library, "eglGetError", &egl.GetError) &&
                        LoadSymbol(library, "eglGetPlatformDisplay", &egl.GetPlatformDisplay) &&
                        LoadSymbol(library, "eglGetProcAddress", &egl.GetProcAddress) &&
                        LoadSymbol(library, "eglInitialize", &egl.Initialize) &&
                        LoadSymbol(library, "eglMakeCurrent", &egl.MakeCurrent) &&
                        LoadSymbol(library, "eglQueryString", &egl.QueryString) &&
                        LoadSymbol(library, "eglReleaseThread", &egl.ReleaseThread) &&
                        LoadSymbol(library, "eglTerminate", &egl.Terminate);
  return complete ? std::optional(egl) : std::nullopt;
}

std::string ErrorName(const EglApi& egl) {
  const EGLint code = egl.GetError();
  switch (code) {
    case EGL_NOT_INITIALIZED:
      return "EGL_NOT_INITIALIZED, no driver for it";
    case EGL_BAD_ACCESS:
      return "EGL_BAD_ACCESS, a context of another system (a window's?) is current on this thread";
    case EGL_BAD_ALLOC:
      return "EGL_BAD_ALLOC, out of memory";
    default:
      return fmt::format("EGL error {:#x}", code);
  }
}

class EglContext final : public GlContext {
 public:
  EglContext(const EglApi& egl, EGLDisplay display, EGLContext context)
      : egl_(egl), display_(display), context_(context) {}

  ~EglContext() override {
    egl_.MakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    egl_.DestroyContext(display_, context_);
    egl_.ReleaseThread();
  }

  void MakeCurrent() override {
    if (egl_.GetCurrentContext() == context_) {
      return;
    }
    if (egl_.MakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, context_) != EGL_TRUE) {
      throw Error(ErrorCode::kEnv,
                  "cannot render on this thread: eglMakeCurrent failed with " + ErrorName(egl_));
    }
  }

 private:
  const EglApi& egl_;
  EGLDisplay display_;
  EGLContext context_;
};

// An initialized display and the configuration for its contexts.
struct EglTarget {
  EGLDisplay display;
  EGLConfig config;
  std::string name;
};

class EglSystem final : public GlSystem {
 public:
  EglSystem(const EglApi& egl, EglTarget target) : egl_(egl), target_(std::move(target)) {}

  const std::string& name() const override { return target_.name; }

  std::unique_ptr<GlContext> CreateContext() override {
    egl_.BindAPI(EGL_OPENGL_API);  // a setting of the calling thread
    const EGLContext context =
        egl_.CreateContext(target_.display, target_.config, EGL_NO_CONTEXT, nullptr);
    if (context == EGL_NO_CONTEXT) {
      throw Error(ErrorCode::kEnv, fmt::format("{}: no OpenGL context for this thread: {}",
                                               target_.name, ErrorName(egl_)));
    }
    auto owned = std::make_unique<EglContext>(egl_, target_.display, context);
    owned->MakeCurrent();
    return owned;
  }

 private:
  EglApi egl_;
  EglTarget target_;
};

// Nothing if the display cannot be used; adds the reason.
std::optional<EglTarget> TryDisplay(const EglApi& egl, EGLenum platform, void* device,
                                    std::string name, std::string* reasons) {
  const auto refuse = [&](std::string_view why) {
    *reasons += fmt::format("{}: {}; ", name, why);
    return std::nullopt;
  };
  const EGLDisplay display = egl.GetPlatformDisplay(platform, device, nullptr);
  if (display == EGL_NO_DISPLAY) return refuse("no such display");
  if (egl.Initialize(display, nullptr, nullptr) != EGL_TRUE) return refuse(ErrorName(egl));
  const auto give_up = [&](std::string_view why) {
    egl.Terminate(display);
    return refuse(why);
  };

  const char* const extensions = egl.QueryString(display, EGL_EXTENSIONS);
  if (extensions == nullptr || std::strstr(extensions, "EGL_KHR_surfaceless_context") == nullptr) {
    return give_up("its driver lacks EGL_KHR_surfaceless_context");
  }
  if (egl.BindAPI(EGL_OPENGL_API) != EGL_TRUE) return give_up("its driver lacks desktop OpenGL");
  constexpr std::array<EGLint, 5> kWanted = {EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_SURFACE_TYPE,
                                             EGL_PBUFFER_BIT, EGL_NONE};
  EGLConfig config = nullptr;
  EGLint count = 0;
  if (egl.ChooseConfig(display, kWanted.data(), &config, 1, &count) != EGL_TRUE || count == 0) {
    return give_up("no configuration for desktop OpenGL");
  }
  const EGLContext context = egl.CreateContext(display, config, EGL_NO_CONTEXT, nullptr);
  if (context == EGL_NO_CONTEXT) return give_up("no OpenGL context: " + ErrorName(egl));
  egl.DestroyContext(display, context);
  return EglTarget{display, config, std::move(name)};
}

// GPUs come first in the list, Mesa's software device last.
std::vector<EGLDeviceEXT> Devices(const EglApi& egl) {
  PFNEGLQUERYDEVICESEXTPROC query_devices = nullptr;
  const auto address = egl.GetProcAddress("eglQueryDevicesEXT");
  std::memcpy(&query_devices, &address, sizeof address);
  std::vector<EGLDeviceEXT> devices(kMaxDevices);
  EGLint count = 0;
  if (query_devices == nullptr || query_devices(kMaxDevices, devices.data(), &count) != EGL_TRUE) {
    count = 0;
  }
  devices.resize(static_cast<std::size_t>(count));
  return devices;
}

// $MUJOCO_EGL_DEVICE_ID, if set. Throws Error{kEnv} if there is no such device.
std::optional<std::size_t> WantedDevice(std::size_t num_devices) {
  const char* const variable = std::getenv("MUJOCO_EGL_DEVICE_ID");
  if (variable == nullptr) {
    return std::nullopt;
  }
  const std::string_view text = variable;
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size() || index >= num_devices) {
    throw Error(ErrorCode::kEnv, fmt::format("MUJOCO_EGL_DEVICE_ID is '{}', but this machine's EGL "
                                             "devices are numbered 0 to {}",
                                             text, static_cast<std::int64_t>(num_devices) - 1));
  }
  return index;
}

std::optional<EglTarget> FindTarget(const EglApi& egl, std::string* reasons) {
  const std::vector<EGLDeviceEXT> devices = Devices(egl);
  const std::optional<std::size_t> wanted = WantedDevice(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (wanted && *wanted != i) continue;
    if (auto target = TryDisplay(egl, EGL_PLATFORM_DEVICE_EXT, devices[i],
                                 fmt::format("EGL, device {}", i), reasons)) {
      return target;
    }
  }
  if (wanted) return std::nullopt;
  return TryDisplay(egl, EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, "EGL, surfaceless",
                    reasons);
}

}  // namespace

std::unique_ptr<GlSystem> TryEgl(std::string* reasons) {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    *reasons += dlerror();
    return nullptr;
  }
  const std::optional<EglApi> egl = LoadApi(library);
  if (!egl) {
    *reasons += fmt::format("{} is older than EGL 1.5", kLibrary);
    return nullptr;
  }
  std::optional<EglTarget> target = FindTarget(*egl, reasons);
  if (!target) return nullptr;
  // MuJoCo takes its OpenGL functions from the library whose symbols are globally visible
  dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  return std::make_unique<EglSystem>(*egl, std::move(*target));
}

}  // namespace dp_bench::mujoco
