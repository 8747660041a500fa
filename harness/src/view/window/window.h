// A window with an image in it, through GLFW and OpenGL 3.3. The only part of the program that
// needs a display.
#pragma once

#include <memory>
#include <string>

#include "dp_bench/env.h"
#include "view/action_source.h"

namespace dp_bench::view {

/// Used on the main thread. Only one may exist at a time.
class Window {
 public:
  /// Opens a window for an image of this size. Throws Error{kUsage} without a display or OpenGL,
  /// and says what to do instead.
  Window(int width, int height, const std::string& title);
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window();

  /// Sleeps until an event, a call of `Wake` or the timeout. Returns the characters that were
  /// typed.
  std::string WaitForEvents(double timeout_s);

  /// Ends `WaitForEvents`; may be called from any thread while the window exists.
  static void Wake();

  /// The user closed the window or pressed escape.
  bool is_closed() const;

  /// Where the pointer is on the image, and whether its left button is held.
  Pointer pointer() const;

  void SetTitle(const std::string& title);

  /// Shows an image. Call it again after the window was resized or uncovered.
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
