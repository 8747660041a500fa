// A window with an image in it, through GLFW and OpenGL 3.3. The only part of the program that
// needs a display.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "dp_bench/env.h"
#include "view/action_source.h"
#include "view/player.h"

namespace dp_bench::view {

// An image in a window of another shape: as large as fits, centred.

struct Placement {
  double left = 0.0;
  double top = 0.0;
  double width = 0.0;
  double height = 0.0;
};

/// All sizes are positive, in any unit.
inline Placement FitInto(double image_width, double image_height, double window_width,
                         double window_height) {
  const double scale = std::min(window_width / image_width, window_height / image_height);
  const double width = scale * image_width;
  const double height = scale * image_height;
  return {.left = 0.5 * (window_width - width),
          .top = 0.5 * (window_height - height),
          .width = width,
          .height = height};
}

/// Converts a position in the window to one on the image. Outside the image it is clamped to
/// the edge.
inline Pointer PointerOn(const Placement& image, double window_x, double window_y, bool is_down) {
  return {.x = std::clamp((window_x - image.left) / image.width, 0.0, 1.0),
          .y = std::clamp((window_y - image.top) / image.height, 0.0, 1.0),
          .is_down = is_down};
}

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
  void Show(const RgbImage& image);

  /// What the window shows, read back from OpenGL.
  RgbImage Capture();

 private:
  struct Screen;

  void Upload(const RgbImage& image);
  void Draw();

  std::unique_ptr<Screen> screen_;
};

// The window and the player together: the body of `dp_bench view`.

/// Opens the window and plays until the user closes it or PlayerOptions::n_steps is reached; sets
/// `on_image` itself. Prints a line for each finished episode. `screenshot`: PNG of the window when
/// it closes; empty: none. Call it on the main thread. Throws Error{kUsage} without a display, and
/// any error that ends the player.
void RunViewer(PlayerThreadOptions options, const std::filesystem::path& screenshot);

}  // namespace dp_bench::view
