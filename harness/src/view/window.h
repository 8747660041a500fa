// A window with a picture in it, through GLFW and OpenGL 3.3. The only part that needs a display.
#pragma once

#include <memory>
#include <string>

#include "dp_bench/env.h"
#include "view/action_source.h"

namespace dp_bench::view {

/// Used by the main thread; there is one at a time.
class Window {
 public:
  /// Opens a window that holds a picture of this size. Throws Error{kUsage} without a display or
  /// without OpenGL, with what to do instead.
  Window(int width, int height, const std::string& title);
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window();

  /// Sleeps until something happens, `Wake` is called or the time is over. Returns the characters
  /// that were typed.
  std::string WaitForEvents(double timeout_s);

  /// Ends `WaitForEvents`; may be called from any thread while the window exists.
  static void Wake();

  /// A person closed the window, or pressed escape.
  bool is_closed() const;

  /// Where the pointer is on the picture, and whether its left button is held.
  Pointer pointer() const;

  void SetTitle(const std::string& title);

  /// Shows a picture; also after the window was resized or uncovered.
  void Show(const RgbImage& picture);

  /// What the window shows, read back from OpenGL.
  RgbImage Capture();

 private:
  struct Screen;

  void Upload(const RgbImage& picture);
  void Draw();

  std::unique_ptr<Screen> screen_;
};

}  // namespace dp_bench::view
