// Observations: the shapes that the peers draw, in their order and colours. Frames: our own
// drawing.
#include "pusht_render.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "dp_bench/error.h"
#include "pusht_raster_marks.h"
#include "pusht_raster_smooth.h"

namespace dp_bench::pusht {
namespace {

enum Colour : std::uint8_t {
  kWhite,
  kGoal,
  kWall,
  kBlockFill,
  kBlockOutline,
  kAgentRim,
  kAgentFill,
};

// LightGreen, LightGray, LightSlateGray and RoyalBlue; insides are 1.2 times as bright.
constexpr std::array<Rgb, 7> kPalette = {{
    {255, 255, 255},
    {144, 238, 144},
    {211, 211, 211},
    {143, 163, 184},
    {119, 136, 153},
    {65, 105, 225},
    {78, 126, 255},
}};

// Discs of radius 15, 11 and 2 as pygame draws them: half the width of each row.
constexpr std::array<int, 15> kAgentRimRows = {15, 15, 15, 14, 14, 14, 13, 13,
                                               12, 11, 10, 9,  8,  6,  3};
constexpr std::array<int, 11> kAgentFillRows = {11, 11, 11, 10, 10, 9, 8, 8, 6, 5, 3};
constexpr std::array<int, 2> kDotRows = {2, 1};

constexpr Rgb kContactColour = {231, 76, 60};
constexpr double kContactReach = 2.0;

constexpr int kOutlineRadius = 2;
constexpr int kAgentReach = static_cast<int>(kAgentRadius);
constexpr int kWallLowPixel = static_cast<int>(kWallLow);
constexpr int kWallHighPixel = static_cast<int>(kWallHigh);

// Far outside the image, but safe to multiply with each other.
constexpr double kFarthest = 8192.0;

int Round(double value) {
  // ties round to the even pixel, as in Python's round()
  return static_cast<int>(std::nearbyint(std::fmin(std::fmax(value, -kFarthest), kFarthest)));
}

using Corners = std::array<Pixel, 4>;

std::array<Corners, kBlockBoxes.size()> BlockCorners(const Pose& pose) {
  const double c = std::cos(pose.angle);
  const double s = std::sin(pose.angle);
  const auto place = [&](double x, double y) {
    return Pixel{Round(pose.x + (x * c - y * s)), Round(pose.y + (x * s + y * c))};
  };
  std::array<Corners, kBlockBoxes.size()> corners;
  for (std::size_t i = 0; i < kBlockBoxes.size(); ++i) {
    const Point& low = kBlockBoxes[i].low;
    const Point& high = kBlockBoxes[i].high;
    corners[i] = {place(low.x, low.y), place(high.x, low.y), place(high.x, high.y),
                  place(low.x, high.y)};
  }
  return corners;
}

// A line of 4 pixels, a parallelogram over it, and a dot on each end. The peers use the line's
// normal without its signs, so the parallelogram is skewed for half of the directions.
void DrawFatSegment(Pixel a, Pixel b, std::uint8_t colour, SampledCanvas* canvas) {
  canvas->DrawWideLine(a, b, colour);
  const int dx = std::abs(b.x - a.x);
  const int dy = std::abs(b.y - a.y);
  if (dx == 0 && dy == 0) return;
  const double scale = kOutlineRadius / std::sqrt(static_cast<double>(dx * dx + dy * dy));
  const Pixel normal = {Round(dy * scale), Round(dx * scale)};
  canvas->FillConvex(
      Corners{Pixel{a.x - normal.x, a.y - normal.y}, Pixel{a.x + normal.x, a.y + normal.y},
              Pixel{b.x + normal.x, b.y + normal.y}, Pixel{b.x - normal.x, b.y - normal.y}},
      colour);
  canvas->DrawDisc(a, kDotRows, colour);
  canvas->DrawDisc(b, kDotRows, colour);
}

void DrawWalls(SampledCanvas* canvas) {
  const Pixel top_left = {kWallLowPixel, kWallLowPixel};
  const Pixel top_right = {kWallHighPixel, kWallLowPixel};
  const Pixel bottom_left = {kWallLowPixel, kWallHighPixel};
  const Pixel bottom_right = {kWallHighPixel, kWallHighPixel};
  DrawFatSegment(bottom_left, top_left, kWall, canvas);
  DrawFatSegment(top_left, top_right, kWall, canvas);
  DrawFatSegment(top_right, bottom_right, kWall, canvas);
  DrawFatSegment(bottom_left, bottom_right, kWall, canvas);
}

// The bounding box of points that are added one by one.
struct Bounds {
  Pixel low = {kCanvasSize, kCanvasSize};
  Pixel high = {-1, -1};

  void Add(Pixel centre, int reach) {
    low = {std::min(low.x, centre.x - reach), std::min(low.y, centre.y - reach)};
    high = {std::max(high.x, centre.x + reach), std::max(high.y, centre.y + reach)};
  }
  bool TouchesWalls() const {
    constexpr int reach = kOutlineRadius + 1;
    return low.x <= kWallLowPixel + reach || low.y <= kWallLowPixel + reach ||
           high.x >= kWallHighPixel - reach || high.y >= kWallHighPixel - reach;
  }
};

// Where the agent touches one of the block's boxes, debug draw puts a stroke along the normal, from
// inside the agent to inside the box. It also draws one at the block's contacts with walls; this
// code does not.
void DrawContacts(const PushtState& state, SmoothMarks* marks) {
  const double c = std::cos(state.block.angle);
  const double s = std::sin(state.block.angle);
  const double dx = state.agent.x - state.block.x;
  const double dy = state.agent.y - state.block.y;
  const Point agent = {c * dx + s * dy, c * dy - s * dx};  // in the block's frame
  for (const Box& box : kBlockBoxes) {
    const Point nearest = {std::clamp(agent.x, box.low.x, box.high.x),
                           std::clamp(agent.y, box.low.y, box.high.y)};
    const Point gap = {nearest.x - agent.x, nearest.y - agent.y};
    const double distance = std::sqrt(gap.x * gap.x + gap.y * gap.y);
    // inside the box the direction would depend on the peers' collision code
    if (!(distance > 0.0 && distance <= kAgentRadius)) continue;
    const Point normal = {(c * gap.x - s * gap.y) / distance, (s * gap.x + c * gap.y) / distance};
    const auto along = [&](double length) {
      return Pixel{Round(state.agent.x + length * normal.x),
                   Round(state.agent.y + length * normal.y)};
    };
    marks->DrawLine(along(kAgentRadius - kContactReach), along(distance + kContactReach),
                    kContactColour);
  }
}

}  // namespace

PushtRenderer::PushtRenderer() : resize_(kPalette) {
  for (const Corners& corners : BlockCorners(kGoalPose)) background_.FillConvex(corners, kGoal);
  DrawWalls(&background_);
  canvas_ = background_;
  resize_.Run(background_, {{0, 0}, {kImageSize, kImageSize}}, background_image_);
}

void PushtRenderer::RenderObservation(const PushtState& state, std::span<std::uint8_t> image) {
  DPB_ASSERT(image.size() == background_image_.size());
  std::copy(background_image_.begin(), background_image_.end(), image.begin());

  // the block first, then the agent
  Bounds block_bounds;
  for (const Corners& corners : BlockCorners(state.block)) {
    canvas_.FillConvex(corners, kBlockFill);
    for (std::size_t i = 0; i < corners.size(); ++i) {
      DrawFatSegment(corners[i], corners[(i + 1) % corners.size()], kBlockOutline, &canvas_);
      block_bounds.Add(corners[i], kOutlineRadius + 1);
    }
  }
  Bounds agent_bounds;
  const Pixel agent = {Round(state.agent.x), Round(state.agent.y)};
  canvas_.DrawDisc(agent, kAgentRimRows, kAgentRim);
  canvas_.DrawDisc(agent, kAgentFillRows, kAgentFill);
  agent_bounds.Add(agent, kAgentReach);

  // the walls are drawn on top of both
  if (block_bounds.TouchesWalls() || agent_bounds.TouchesWalls()) DrawWalls(&canvas_);

  const std::array<Region, 2> changed = {
      canvas_.OutputRegion(block_bounds.low, block_bounds.high),
      canvas_.OutputRegion(agent_bounds.low, agent_bounds.high),
  };
  for (const Region& region : changed) resize_.Run(canvas_, region, image);

  SmoothMarks marks(canvas_, resize_);
  DrawContacts(state, &marks);
  marks.Resolve(image);

  for (const Region& region : changed) canvas_.Restore(background_, region);
}

namespace {

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
  explicit BlockShape(const Pose& pose)
      : pose_(pose), cos_(std::cos(pose.angle)), sin_(std::sin(pose.angle)) {}

  // Negative inside.
  double operator()(Point p) const {
    const double dx = p.x - pose_.x;
    const double dy = p.y - pose_.y;
    const Point local = {std::abs(cos_ * dx + sin_ * dy), cos_ * dy - sin_ * dx};
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
    Box bounds = {{pose_.x, pose_.y}, {pose_.x, pose_.y}};
    for (const Point& corner : kHalfOutline) {
      for (const double x : {corner.x, -corner.x}) {
        const Point p = {pose_.x + cos_ * x - sin_ * corner.y,
                         pose_.y + sin_ * x + cos_ * corner.y};
        bounds.low = {std::min(bounds.low.x, p.x), std::min(bounds.low.y, p.y)};
        bounds.high = {std::max(bounds.high.x, p.x), std::max(bounds.high.y, p.y)};
      }
    }
    return bounds;
  }

 private:
  Pose pose_;
  double cos_;
  double sin_;
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

void RenderFrame(const PushtState& state, const Point* target, RgbImage* frame) {
  const BlockShape goal(kGoalPose);
  const BlockShape block(state.block);
  const BlockShape shadow(
      {state.block.x + kShadowOffset.x, state.block.y + kShadowOffset.y, state.block.angle});
  SmoothPainter painter(frame);
  PaintRoom(&painter);
  painter.PaintRimmed(goal.bounds(), kGoalColour, kGoalRimColour, kGoalRimWidth, goal);
  painter.Paint(shadow.bounds(), kShadowColour, kShadowOpacity, kShadowBlur, shadow);
  painter.PaintRimmed(block.bounds(), kBlockColour, kBlockRimColour, kBlockRimWidth, block);
  if (target != nullptr) {
    PaintCapsule(state.agent, *target, kTrackRadius, kTargetColour, kTrackOpacity, &painter);
  }
  PaintAgent(state.agent, &painter);
  if (target != nullptr) PaintTarget(*target, &painter);
}

Point PlaceInFrame(Point point, int width, int height) {
  const PicturePlace place(width, height);
  return {(place.left + point.x * place.scale) / width,
          (place.top + point.y * place.scale) / height};
}

}  // namespace dp_bench::pusht
