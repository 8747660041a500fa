// The env's images: 96x96 observations equal to the demonstrations' images, and frames of any
// size for people. Observations follow diffusion_policy's PushTEnv (a 512x512 pygame drawing
// through pymunk's debug draw, resized with OpenCV); frames are our own, anti-aliased.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "dp_bench/env.h"
#include "pusht_raster.h"
#include "pusht_world.h"

namespace dp_bench::pusht {

/// Where the goal is, and its shape: a T, or with `radius` a disc.
struct Goal {
  Point offset;         // from its usual place [px]
  double radius = 0.0;  // [px]

  bool operator==(const Goal&) const = default;
};

/// Draws observations. Allocates nothing. Used by one thread at a time.
class PushtRenderer {
 public:
  PushtRenderer();

  /// Draws `goal`, block, agent and walls into `image`, RGB8 [96, 96, 3], and a red stroke where
  /// agent and block touch. Equal states give equal images. Parts outside the world are cut off.
  /// differs: the peers also mark where the block touches a wall.
  void RenderObservation(const PushtState& state, std::span<std::uint8_t> image,
                         const Goal& goal = {});

 private:
  void DrawBackground(const Goal& goal);

  SampledCanvas background_;  // white, the goal and the walls
  SampledCanvas canvas_;      // equals background_ between calls
  BilinearResize resize_;
  std::array<std::uint8_t, kImageSize * kImageSize * 3> background_image_;
  Goal drawn_;  // in the background
};

/// Draws the state with smooth edges for videos, as large as fits into `frame` and centred. A cross
/// marks `target`, the agent's target; null draws none. Allocates nothing.
void RenderFrame(const PushtState& state, const Point* target, RgbImage* frame,
                 const Goal& goal = {});

/// The position of a world point in RenderFrame's image of this size: from the top left, inside
/// the image in [0, 1].
Point PlaceInFrame(Point point, int width, int height);

}  // namespace dp_bench::pusht
