// OpenGL 3.3 core: the image is a texture on a framebuffer object, and a blit scales it into the
// window. That needs no shader, and the blit also flips the image upright.
#include "view/window/window.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <utility>

#define GLFW_INCLUDE_GLCOREARB
#include <GLFW/glfw3.h>

#include "core/errors.h"

namespace dp_bench::view {
namespace {

[[noreturn]] void ThrowNoWindow(const std::string& why) {
  throw UsageError(
      "cannot open a window: {}. Set DISPLAY to a screen (ssh -X brings one), run under `xvfb-run "
      "-a`, or make videos with `dp_bench eval`",
      why);
}

std::string GlfwError() {
  const char* text = nullptr;
  glfwGetError(&text);
  return text == nullptr ? "GLFW gives no reason" : text;
}

// GLFW itself, initialized as long as the window exists.
struct Glfw {
  Glfw() {
    if (glfwInit() == GLFW_FALSE) ThrowNoWindow(GlfwError());
  }
  ~Glfw() { glfwTerminate(); }
  Glfw(const Glfw&) = delete;
  Glfw& operator=(const Glfw&) = delete;
};

struct DestroyWindow {
  void operator()(GLFWwindow* window) const { glfwDestroyWindow(window); }
};

// The OpenGL function of this name in the current context.
struct GlFunction {
  const char* name;

  template <class Function>
  operator Function*() const {
    auto* const function = reinterpret_cast<Function*>(glfwGetProcAddress(name));
    if (function == nullptr) ThrowNoWindow(fmt::format("this OpenGL has no {}", name));
    return function;
  }
};

// The OpenGL functions that are used.
struct Gl {
  PFNGLBINDFRAMEBUFFERPROC BindFramebuffer = GlFunction{"glBindFramebuffer"};
  PFNGLBINDTEXTUREPROC BindTexture = GlFunction{"glBindTexture"};
  PFNGLBLITFRAMEBUFFERPROC BlitFramebuffer = GlFunction{"glBlitFramebuffer"};
  PFNGLCHECKFRAMEBUFFERSTATUSPROC CheckFramebufferStatus = GlFunction{"glCheckFramebufferStatus"};
  PFNGLCLEARPROC Clear = GlFunction{"glClear"};
  PFNGLCLEARCOLORPROC ClearColor = GlFunction{"glClearColor"};
  PFNGLFRAMEBUFFERTEXTURE2DPROC FramebufferTexture2D = GlFunction{"glFramebufferTexture2D"};
  PFNGLGENFRAMEBUFFERSPROC GenFramebuffers = GlFunction{"glGenFramebuffers"};
  PFNGLGENTEXTURESPROC GenTextures = GlFunction{"glGenTextures"};
  PFNGLPIXELSTOREIPROC PixelStorei = GlFunction{"glPixelStorei"};
  PFNGLREADPIXELSPROC ReadPixels = GlFunction{"glReadPixels"};
  PFNGLTEXIMAGE2DPROC TexImage2D = GlFunction{"glTexImage2D"};
};

GLFWwindow* OpenWindow(int width, int height, const std::string& title) {
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  glfwWindowHint(GLFW_OPENGL_FORWARD_COMPAT, GLFW_TRUE);
  GLFWwindow* const window = glfwCreateWindow(width, height, title.c_str(), nullptr, nullptr);
  if (window == nullptr) ThrowNoWindow(GlfwError());
  glfwMakeContextCurrent(window);
  glfwSwapInterval(1);
  return window;
}

}  // namespace

struct Window::Screen {
  Screen(int width, int height, const std::string& title)
      : window(OpenWindow(width, height, title)), image_width(width), image_height(height) {}

  Glfw glfw;  // first: it outlives the window
  std::unique_ptr<GLFWwindow, DestroyWindow> window;
  Gl gl;
  GLuint texture = 0;
  GLuint framebuffer = 0;
  int image_width;
  int image_height;
  std::string typed;
  bool is_uncovered = false;
};

Window::Window(int width, int height, const std::string& title)
    : screen_(std::make_unique<Screen>(width, height, title)) {
  GLFWwindow* const window = screen_->window.get();
  glfwSetWindowUserPointer(window, screen_.get());
  glfwSetCharCallback(window, [](GLFWwindow* from, unsigned int character) {
    auto* const screen = static_cast<Screen*>(glfwGetWindowUserPointer(from));
    if (character < 128) screen->typed += static_cast<char>(character);
  });
  glfwSetKeyCallback(window, [](GLFWwindow* from, int key, int, int, int) {
    if (key == GLFW_KEY_ESCAPE) glfwSetWindowShouldClose(from, GLFW_TRUE);
  });
  glfwSetWindowRefreshCallback(window, [](GLFWwindow* from) {
    static_cast<Screen*>(glfwGetWindowUserPointer(from))->is_uncovered = true;
  });

  const Gl& gl = screen_->gl;
  gl.PixelStorei(GL_UNPACK_ALIGNMENT, 1);
  gl.PixelStorei(GL_PACK_ALIGNMENT, 1);
  gl.ClearColor(0.1F, 0.1F, 0.1F, 1.0F);
  gl.GenTextures(1, &screen_->texture);
  gl.BindTexture(GL_TEXTURE_2D, screen_->texture);
  gl.GenFramebuffers(1, &screen_->framebuffer);
  gl.BindFramebuffer(GL_READ_FRAMEBUFFER, screen_->framebuffer);
  Upload(RgbImage(width, height));
  gl.FramebufferTexture2D(GL_READ_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D,
                          screen_->texture, 0);
  if (gl.CheckFramebufferStatus(GL_READ_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE) {
    ThrowNoWindow("this OpenGL cannot draw from an RGBA8 texture");
  }
}

Window::~Window() = default;

std::string Window::WaitForEvents(double timeout_s) {
  screen_->typed.clear();
  glfwWaitEventsTimeout(timeout_s);
  if (std::exchange(screen_->is_uncovered, false)) {
    Draw();
    glfwSwapBuffers(screen_->window.get());
  }
  return screen_->typed;
}

void Window::Wake() { glfwPostEmptyEvent(); }

bool Window::is_closed() const { return glfwWindowShouldClose(screen_->window.get()) != 0; }

Pointer Window::pointer() const {
  GLFWwindow* const window = screen_->window.get();
  double x = 0.0;
  double y = 0.0;
  glfwGetCursorPos(window, &x, &y);
  int width = 0;
  int height = 0;
  glfwGetWindowSize(window, &width, &height);
  const bool is_down = glfwGetMouseButton(window, GLFW_MOUSE_BUTTON_LEFT) == GLFW_PRESS;
  if (width < 1 || height < 1) return {};  // a window manager may shrink it this far
  return PointerOn(FitInto(screen_->image_width, screen_->image_height, width, height), x, y,
                   is_down);
}

void Window::SetTitle(const std::string& title) {
  glfwSetWindowTitle(screen_->window.get(), title.c_str());
}

void Window::Show(const RgbImage& image) {
  Upload(image);
  Draw();
  glfwSwapBuffers(screen_->window.get());
}

void Window::Upload(const RgbImage& image) {
  screen_->image_width = image.width;
  screen_->image_height = image.height;
  screen_->gl.TexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, image.width, image.height, 0, GL_RGB,
                         GL_UNSIGNED_BYTE, image.pixels.data());
}

void Window::Draw() {
  int width = 0;
  int height = 0;
  glfwGetFramebufferSize(screen_->window.get(), &width, &height);
  if (width < 1 || height < 1) return;

  // OpenGL counts rows from the bottom: the image's first row goes to the top
  const Gl& gl = screen_->gl;
  const Placement place = FitInto(screen_->image_width, screen_->image_height, width, height);
  const auto left = static_cast<GLint>(std::lround(place.left));
  const auto right = static_cast<GLint>(std::lround(place.left + place.width));
  const auto top = static_cast<GLint>(height - std::lround(place.top));
  const auto bottom = static_cast<GLint>(height - std::lround(place.top + place.height));
  gl.Clear(GL_COLOR_BUFFER_BIT);
  gl.BlitFramebuffer(0, 0, screen_->image_width, screen_->image_height, left, top, right, bottom,
                     GL_COLOR_BUFFER_BIT, GL_LINEAR);
}

RgbImage Window::Capture() {
  int width = 0;
  int height = 0;
  glfwGetFramebufferSize(screen_->window.get(), &width, &height);
  const Gl& gl = screen_->gl;
  Draw();
  RgbImage flipped(width, height);
  gl.BindFramebuffer(GL_READ_FRAMEBUFFER, 0);
  gl.ReadPixels(0, 0, width, height, GL_RGB, GL_UNSIGNED_BYTE, flipped.pixels.data());
  gl.BindFramebuffer(GL_READ_FRAMEBUFFER, screen_->framebuffer);

  // rows come from the bottom
  RgbImage capture(width, height);
  const auto row_bytes = static_cast<std::size_t>(width) * 3;
  for (int row = 0; row < height; ++row) {
    std::copy_n(flipped.pixels.data() + static_cast<std::size_t>(height - 1 - row) * row_bytes,
                row_bytes, capture.pixels.data() + static_cast<std::size_t>(row) * row_bytes);
  }
  return capture;
}

}  // namespace dp_bench::view
