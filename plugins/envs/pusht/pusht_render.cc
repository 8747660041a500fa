// The shapes that the peers draw, in their order and colours, and the contact marks over them.
#include "pusht_render.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "dp_bench/error.h"

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
  const Frame block(pose);
  std::array<Corners, kBlockBoxes.size()> corners;
  for (std::size_t i = 0; i < kBlockBoxes.size(); ++i) {
    std::ranges::transform(CornersOf(kBlockBoxes[i]), corners[i].begin(), [&](const Point& p) {
      const Point turned = block.Rotated(p);
      return Pixel{Round(pose.x + turned.x), Round(pose.y + turned.y)};
    });
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

// Smooth lines over a drawing: Wu's line ("An efficient antialiasing technique", 1991) between
// whole pixels, with pygame's float32 arithmetic. Its blended colours are not in the palette, so
// the few texels it touches are stored separately. Neither canvas nor resize may change while it is
// in use.
class SmoothMarks {
 public:
  SmoothMarks(const SampledCanvas& canvas, const BilinearResize& resize)
      : canvas_(canvas), resize_(resize) {}

  /// Blends a line one pixel wide over the canvas and the earlier marks. Unsampled pixels cost
  /// nothing. After 64 sampled pixels, further ones are left out.
  void DrawLine(Pixel a, Pixel b, Rgb colour);

  /// Writes the output pixels that read a mark into `image`, RGB8 [96, 96, 3].
  void Resolve(std::span<std::uint8_t> image) const;

 private:
  struct Texel {
    int row = 0;
    int column = 0;
    Rgb colour = {};
  };

  void Blend(Pixel pixel, Rgb colour, float weight);
  Rgb ColourAt(int row, int column) const;

  const SampledCanvas& canvas_;
  const BilinearResize& resize_;
  std::array<Texel, 64> texels_;
  std::size_t count_ = 0;
};

void SmoothMarks::DrawLine(Pixel a, Pixel b, Rgb colour) {
  const bool steep = std::abs(b.x - a.x) < std::abs(b.y - a.y);
  if (steep) {
    std::swap(a.x, a.y);
    std::swap(b.x, b.y);
  }
  if (a.x > b.x) std::swap(a, b);
  const auto place = [steep](int major, int minor) {
    return steep ? Pixel{minor, major} : Pixel{major, minor};
  };

  const int length = b.x - a.x;
  const float gradient =
      length == 0 ? 0.0F : static_cast<float>(b.y - a.y) / static_cast<float>(length);
  float minor = static_cast<float>(a.y);
  for (int x = a.x; x <= b.x; ++x, minor += gradient) {
    // the sum's rounding error must not split the last pixel, which is a full one
    if (x == b.x) minor = static_cast<float>(b.y);
    const float whole = std::floor(minor);
    const float fraction = minor - whole;
    Blend(place(x, static_cast<int>(whole)), colour, 1.0F - fraction);
    Blend(place(x, static_cast<int>(whole) + 1), colour, fraction);
  }
}

void SmoothMarks::Blend(Pixel pixel, Rgb colour, float weight) {
  const int row = canvas_.SampleAt(pixel.y);
  const int column = canvas_.SampleAt(pixel.x);
  if (weight <= 0.0F || row < 0 || column < 0 || count_ == texels_.size()) return;
  Rgb mixed = ColourAt(row, column);
  for (std::size_t c = 0; c < mixed.size(); ++c) {
    mixed[c] = static_cast<std::uint8_t>(weight * static_cast<float>(colour[c]) +
                                         (1.0F - weight) * static_cast<float>(mixed[c]));
  }
  texels_[count_++] = {row, column, mixed};
}

Rgb SmoothMarks::ColourAt(int row, int column) const {
  for (std::size_t i = count_; i-- > 0;) {
    if (texels_[i].row == row && texels_[i].column == column) return texels_[i].colour;
  }
  return resize_.colour(canvas_.Row(row)[column]);
}

void SmoothMarks::Resolve(std::span<std::uint8_t> image) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const int x = texels_[i].column / 2;
    const int y = texels_[i].row / 2;
    const Rgb blended = BilinearBlend(x, y, {ColourAt(2 * y, 2 * x), ColourAt(2 * y, 2 * x + 1)},
                                      {ColourAt(2 * y + 1, 2 * x), ColourAt(2 * y + 1, 2 * x + 1)});
    std::ranges::copy(blended, &image[static_cast<std::size_t>((y * kImageSize + x) * 3)]);
  }
}

// Where the agent touches one of the block's boxes, debug draw puts a stroke along the normal, from
// inside the agent to inside the box. It also draws one at the block's contacts with walls; this
// code does not.
void DrawContacts(const PushtState& state, SmoothMarks* marks) {
  const Frame block(state.block);
  const Point agent = block.ToLocal(state.agent);
  for (const Box& box : kBlockBoxes) {
    const Point nearest = {std::clamp(agent.x, box.low.x, box.high.x),
                           std::clamp(agent.y, box.low.y, box.high.y)};
    const Point gap = {nearest.x - agent.x, nearest.y - agent.y};
    const double distance = std::sqrt(gap.x * gap.x + gap.y * gap.y);
    // inside the box the direction would depend on the peers' collision code
    if (!(distance > 0.0 && distance <= kAgentRadius)) continue;
    const Point turned = block.Rotated(gap);
    const Point normal = {turned.x / distance, turned.y / distance};
    const auto along = [&](double length) {
      return Pixel{Round(state.agent.x + length * normal.x),
                   Round(state.agent.y + length * normal.y)};
    };
    marks->DrawLine(along(kAgentRadius - kContactReach), along(distance + kContactReach),
                    kContactColour);
  }
}

}  // namespace

PushtRenderer::PushtRenderer() : resize_(kPalette) { DrawBackground({}); }

void PushtRenderer::DrawBackground(const Goal& goal) {
  drawn_ = goal;
  background_ = {};
  const Point place = {kGoalPose.x + goal.offset.x, kGoalPose.y + goal.offset.y};
  if (goal.radius > 0.0) {
    std::array<Pixel, 24> rim;
    for (std::size_t i = 0; i < rim.size(); ++i) {
      const double angle = 2.0 * kPi * static_cast<double>(i) / rim.size();
      rim[i] = {Round(place.x + goal.radius * std::cos(angle)),
                Round(place.y + goal.radius * std::sin(angle))};
    }
    background_.FillConvex(rim, kGoal);
  } else {
    for (const Corners& corners : BlockCorners({place.x, place.y, kGoalPose.angle})) {
      background_.FillConvex(corners, kGoal);
    }
  }
  DrawWalls(&background_);
  canvas_ = background_;
  resize_.Run(background_, {{0, 0}, {kImageSize, kImageSize}}, background_image_);
}

void PushtRenderer::RenderObservation(const PushtState& state, std::span<std::uint8_t> image,
                                      const Goal& goal) {
  DPB_ASSERT(image.size() == background_image_.size());
  if (goal != drawn_) DrawBackground(goal);
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

}  // namespace dp_bench::pusht
