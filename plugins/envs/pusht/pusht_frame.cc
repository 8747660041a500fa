// Frames of any size for people: anti-aliased shapes. A shape is a signed distance in world pixels,
// and its edge is one image pixel wide. Deterministic: of the C library it uses only square roots,
// and the sine and cosine of the block's angle.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "pusht_render.h"

namespace dp_bench::pusht {
namespace {

// The largest centred square of an image, onto which the world is mapped.
struct ImagePlace {
  ImagePlace(int width, int height)
      : scale(std::min(width, height) / kWorldSize),
        left((width - scale * kWorldSize) / 2.0),
        top((height - scale * kWorldSize) / 2.0) {}

  double scale;  // image pixels per world pixel
  double left;   // left edge of the world in the image
  double top;
};

// Blends shapes into the world's area of an image. `distance` maps a Point of the world to its
// signed distance [world px], negative inside. It is called within `bounds` plus a margin for the
// soft edge.
class SmoothPainter {
 public:
  // `frame` must outlive the painter.
  explicit SmoothPainter(RgbImage* frame) : frame_(frame), place_(frame->width, frame->height) {}

  // World pixels per image pixel.
  double pixel_size() const { return 1.0 / place_.scale; }

  void Fill(Rgb colour) {
    for (std::size_t i = 0; i + 2 < frame_->pixels.size(); i += 3) {
      std::ranges::copy(colour, &frame_->pixels[i]);
    }
  }

  // `blur`: width of the edge [world px], if it is more than an image pixel.
  template <class Distance>
  void Paint(const Box& bounds, Rgb colour, double opacity, double blur, const Distance& distance) {
    const double width = std::max(blur, pixel_size());
    ForEachPixel(bounds, width, [&](std::uint8_t* pixel, Point p) {
      Blend(pixel, colour, Cover(distance(p), width) * opacity);
    });
  }

  // A shape with a rim of `rim_width` [world px] inside its edge.
  template <class Distance>
  void PaintRimmed(const Box& bounds, Rgb colour, Rgb rim, double rim_width,
                   const Distance& distance) {
    const double width = pixel_size();
    ForEachPixel(bounds, width, [&](std::uint8_t* pixel, Point p) {
      const double d = distance(p);
      Blend(pixel, rim, Cover(d, width));
      Blend(pixel, colour, Cover(d + rim_width, width));
    });
  }

 private:
  static double Cover(double distance, double width) {
    return std::clamp(0.5 - distance / width, 0.0, 1.0);
  }

  static void Blend(std::uint8_t* pixel, Rgb colour, double cover) {
    if (cover <= 0.0) return;
    for (std::size_t c = 0; c < colour.size(); ++c) {
      pixel[c] = static_cast<std::uint8_t>(pixel[c] + (colour[c] - pixel[c]) * cover + 0.5);
    }
  }

  // The pixel of a world coordinate, at most `limit`; NaN counts as 0.
  int PixelAt(double world, double offset, int limit) const {
    return static_cast<int>(std::fmin(std::fmax(world * place_.scale + offset, 0.0), limit));
  }

  template <class Visit>
  void ForEachPixel(const Box& bounds, double margin, const Visit& visit) {
    const int x_low = PixelAt(bounds.low.x - margin, place_.left, frame_->width);
    const int x_high = PixelAt(bounds.high.x + margin, place_.left, frame_->width - 1);
    const int y_low = PixelAt(bounds.low.y - margin, place_.top, frame_->height);
    const int y_high = PixelAt(bounds.high.y + margin, place_.top, frame_->height - 1);
    for (int y = y_low; y <= y_high; ++y) {
      const auto row = static_cast<std::size_t>(y) * static_cast<std::size_t>(frame_->width);
      for (int x = x_low; x <= x_high; ++x) {
        visit(&frame_->pixels[3 * (row + static_cast<std::size_t>(x))],
              Point{(x + 0.5 - place_.left) / place_.scale, (y + 0.5 - place_.top) / place_.scale});
      }
    }
  }

  RgbImage* frame_;
  ImagePlace place_;
};

// Colours and measures of the frames [world px].
constexpr Rgb kMarginColour = {238, 240, 243};  // beyond the walls
constexpr Rgb kFloorColour = {255, 255, 255};
constexpr Rgb kWallColour = {190, 196, 203};
constexpr Rgb kGoalColour = {170, 236, 170};
constexpr Rgb kGoalRimColour = {96, 190, 104};
constexpr Rgb kBlockColour = {143, 163, 184};
constexpr Rgb kBlockRimColour = {88, 106, 128};
constexpr Rgb kAgentColour = {86, 134, 255};
constexpr Rgb kAgentRimColour = {40, 76, 190};
constexpr Rgb kTargetColour = {226, 54, 54};
constexpr Rgb kShadowColour = {30, 40, 60};
constexpr double kBlockRimWidth = 3.0;
constexpr double kGoalRimWidth = 2.0;
constexpr double kAgentRimWidth = 3.5;
constexpr double kTargetArm = 8.0;
constexpr double kTargetRadius = 1.5;  // half the width of an arm
constexpr double kTrackRadius = 0.75;  // half the width of the line from the agent to its target
constexpr double kTrackOpacity = 0.35;
constexpr Point kShadowOffset = {2.0, 3.0};
constexpr double kShadowBlur = 6.0;
constexpr double kShadowOpacity = 0.22;

// Half of the block's outline, which is symmetric: from the middle of the bar's top edge to the
// middle of the stem's end.
constexpr std::array<Point, 6> kHalfOutline = {{
    {0.0, kBlockBoxes[0].low.y},
    {kBlockBoxes[0].high.x, kBlockBoxes[0].low.y},
    {kBlockBoxes[0].high.x, kBlockBoxes[0].high.y},
    {kBlockBoxes[1].high.x, kBlockBoxes[1].low.y},
    {kBlockBoxes[1].high.x, kBlockBoxes[1].high.y},
    {0.0, kBlockBoxes[1].high.y},
}};

Box Around(Point a, Point b, double reach) {
  return {{std::min(a.x, b.x) - reach, std::min(a.y, b.y) - reach},
          {std::max(a.x, b.x) + reach, std::max(a.y, b.y) + reach}};
}

double SquaredDistanceToSegment(Point p, Point a, Point b) {
  const double abx = b.x - a.x;
  const double aby = b.y - a.y;
  const double length2 = abx * abx + aby * aby;
  const double along = (p.x - a.x) * abx + (p.y - a.y) * aby;
  const double t = length2 > 0.0 ? std::clamp(along / length2, 0.0, 1.0) : 0.0;
  const double dx = p.x - a.x - t * abx;
  const double dy = p.y - a.y - t * aby;
  return dx * dx + dy * dy;
}

// A segment with round ends.
void PaintCapsule(Point a, Point b, double radius, Rgb colour, double opacity,
                  SmoothPainter* painter) {
  painter->Paint(Around(a, b, radius), colour, opacity, 0.0,
                 [&](Point p) { return std::sqrt(SquaredDistanceToSegment(p, a, b)) - radius; });
}

// The T at a pose.
class BlockShape {
 public:
  explicit BlockShape(const Pose& pose) : frame_(pose) {}

  // Negative inside.
  double operator()(Point p) const {
    Point local = frame_.ToLocal(p);
    local.x = std::abs(local.x);
    double nearest2 = SquaredDistanceToSegment(local, kHalfOutline[0], kHalfOutline[1]);
    for (std::size_t i = 1; i + 1 < kHalfOutline.size(); ++i) {
      nearest2 =
          std::min(nearest2, SquaredDistanceToSegment(local, kHalfOutline[i], kHalfOutline[i + 1]));
    }
    const Box& bar = kBlockBoxes[0];
    const Box& stem = kBlockBoxes[1];
    const double half_width = local.y < bar.high.y ? bar.high.x : stem.high.x;
    const bool inside = local.x < half_width && local.y > bar.low.y && local.y < stem.high.y;
    return inside ? -std::sqrt(nearest2) : std::sqrt(nearest2);
  }

  Box bounds() const {
    Box bounds = {frame_.origin, frame_.origin};
    for (const Point& corner : kHalfOutline) {
      for (const double x : {corner.x, -corner.x}) {
        const Point p = frame_.ToWorld({x, corner.y});
        bounds.low = {std::min(bounds.low.x, p.x), std::min(bounds.low.y, p.y)};
        bounds.high = {std::max(bounds.high.x, p.x), std::max(bounds.high.y, p.y)};
      }
    }
    return bounds;
  }

 private:
  Frame frame_;
};

void PaintRoom(SmoothPainter* painter) {
  constexpr double middle = (kWallLow + kWallHigh) / 2.0;
  constexpr double half = (kWallHigh - kWallLow) / 2.0;
  const std::array<Point, 4> corners = {
      {{kWallLow, kWallLow}, {kWallHigh, kWallLow}, {kWallHigh, kWallHigh}, {kWallLow, kWallHigh}}};
  painter->Fill(kMarginColour);
  painter->Paint({corners[0], corners[2]}, kFloorColour, 1.0, 0.0, [](Point p) {
    return std::max(std::abs(p.x - middle), std::abs(p.y - middle)) - half;
  });
  for (std::size_t i = 0; i < corners.size(); ++i) {
    PaintCapsule(corners[i], corners[(i + 1) % corners.size()], kWallRadius, kWallColour, 1.0,
                 painter);
  }
}

void PaintAgent(Point agent, SmoothPainter* painter) {
  painter->PaintRimmed(Around(agent, agent, kAgentRadius), kAgentColour, kAgentRimColour,
                       kAgentRimWidth, [&](Point p) {
                         const double dx = p.x - agent.x;
                         const double dy = p.y - agent.y;
                         return std::sqrt(dx * dx + dy * dy) - kAgentRadius;
                       });
}

// In small images the arms of the cross stay wider than a pixel.
void PaintTarget(Point target, SmoothPainter* painter) {
  const double radius = std::max(kTargetRadius, 0.75 * painter->pixel_size());
  const double arm = std::max(kTargetArm, 2.0 * radius);
  painter->Paint(Around(target, target, arm), kTargetColour, 1.0, 0.0, [&](Point p) {
    const double x = std::abs(p.x - target.x);
    const double y = std::abs(p.y - target.y);
    return std::min(std::max(x - arm, y - radius), std::max(y - arm, x - radius));
  });
}

}  // namespace

void RenderFrame(const PushtState& state, const Point* target, RgbImage* frame, const Goal& goal) {
  const Point place = {kGoalPose.x + goal.offset.x, kGoalPose.y + goal.offset.y};
  const BlockShape goal_block({place.x, place.y, kGoalPose.angle});
  const BlockShape block(state.block);
  const BlockShape shadow(
      {state.block.x + kShadowOffset.x, state.block.y + kShadowOffset.y, state.block.angle});
  SmoothPainter painter(frame);
  PaintRoom(&painter);
  if (goal.radius > 0.0) {
    painter.PaintRimmed(Around(place, place, goal.radius), kGoalColour, kGoalRimColour,
                        kGoalRimWidth,
                        [&](Point p) { return pusht::Distance(p, place) - goal.radius; });
  } else {
    painter.PaintRimmed(goal_block.bounds(), kGoalColour, kGoalRimColour, kGoalRimWidth,
                        goal_block);
  }
  painter.Paint(shadow.bounds(), kShadowColour, kShadowOpacity, kShadowBlur, shadow);
  painter.PaintRimmed(block.bounds(), kBlockColour, kBlockRimColour, kBlockRimWidth, block);
  if (target != nullptr) {
    PaintCapsule(state.agent, *target, kTrackRadius, kTargetColour, kTrackOpacity, &painter);
  }
  PaintAgent(state.agent, &painter);
  if (target != nullptr) PaintTarget(*target, &painter);
}

Point PlaceInFrame(Point point, int width, int height) {
  const ImagePlace place(width, height);
  return {(place.left + point.x * place.scale) / width,
          (place.top + point.y * place.scale) / height};
}

}  // namespace dp_bench::pusht
