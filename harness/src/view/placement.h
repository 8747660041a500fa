// Places an image in a window of another shape: as large as fits, centred.
#pragma once

#include <algorithm>

#include "view/action_source.h"

namespace dp_bench::view {

struct Placement {
  double left = 0.0;
  double top = 0.0;
  double width = 0.0;
  double height = 0.0;
};

/// All sizes are positive, in any unit.
inline Placement FitInto(double picture_width, double picture_height, double window_width,
                         double window_height) {
  const double scale = std::min(window_width / picture_width, window_height / picture_height);
  const double width = scale * picture_width;
  const double height = scale * picture_height;
  return {.left = 0.5 * (window_width - width),
          .top = 0.5 * (window_height - height),
          .width = width,
          .height = height};
}

/// Converts a position in the window to one on the image. Outside the image it is clamped to
/// the edge.
inline Pointer PointerOn(const Placement& picture, double window_x, double window_y, bool is_down) {
  return {.x = std::clamp((window_x - picture.left) / picture.width, 0.0, 1.0),
          .y = std::clamp((window_y - picture.top) / picture.height, 0.0, 1.0),
          .is_down = is_down};
}

}  // namespace dp_bench::view
