// The plan has a dark rim, so that it shows on white floors and in dark scenes alike.
#include "media/video_overlay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace dp_bench::media {
namespace {

constexpr Colour kRim = {24, 24, 24};
constexpr Colour kCaptionBar = {24, 24, 24};
constexpr Colour kSuccess = {22, 140, 64};
constexpr double kRimOpacity = 0.75;
constexpr double kExecutedOpacity = 0.7;
constexpr double kPathOpacity = 0.8;

using Points = std::vector<ImagePoint>;

// Sizes that fit the image [px].
struct Measures {
  explicit Measures(const RgbImage& frame)
      : side(std::min(frame.width, frame.height)),
        line(std::max(0.8, side / 220.0)),
        dot(std::max(1.2, side / 130.0)),
        rim(std::max(0.5, side / 320.0)),
        caption(std::max(11, side / 17)),
        border(std::max(1, side / 64)) {}

  int side;
  double line;  // thickness
  double dot;   // largest radius
  double rim;   // around dots and lines
  int caption;  // height of a line
  int border;
};

// The marks of one hand, in order.
Points PointsOf(std::span<const float> marks, std::size_t hand, std::size_t n_marks,
                const RgbImage& frame) {
  Points points;
  for (std::size_t i = 2 * hand; i + 1 < marks.size(); i += 2 * n_marks) {
    points.push_back({static_cast<double>(marks[i]) * frame.width,
                      static_cast<double>(marks[i + 1]) * frame.height});
  }
  return points;
}

void DrawDots(std::span<const ImagePoint> points, double radius, const Colour& colour,
              double opacity, RgbImage* frame) {
  for (const ImagePoint& point : points) DrawDisc(point, radius, colour, opacity, frame);
}

// The radius at which dots stay distinguishable. They lie close together in a small view or when a
// hand hardly moves. The line's thickness limits how small they get.
double DotRadius(std::span<const ImagePoint> points, const Measures& measures) {
  double length = 0.0;
  int n_gaps = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double gap = std::hypot(points[i].x - points[i - 1].x, points[i].y - points[i - 1].y);
    if (!std::isfinite(gap)) continue;
    length += gap;
    ++n_gaps;
  }
  const double least = 0.8 * measures.line;
  return std::clamp(0.35 * length / std::max(1, n_gaps), least, std::max(least, measures.dot));
}

// Dots joined by a line, all within one rim.
void DrawPlan(std::span<const ImagePoint> points, double dot, const Measures& measures,
              const Colour& colour, RgbImage* frame) {
  DrawPolyline(points, measures.line + 2.0 * measures.rim, kRim, kRimOpacity, frame);
  DrawDots(points, dot + measures.rim, kRim, kRimOpacity, frame);
  DrawPolyline(points, measures.line, colour, 1.0, frame);
  DrawDots(points, dot, colour, 1.0, frame);
}

void DrawHand(const VideoMoment& moment, std::size_t hand, const Measures& measures,
              RgbImage* frame) {
  const HandColours& colours = kHands[hand % kHands.size()];
  const Points path = PointsOf(moment.path, hand, moment.n_marks, *frame);
  DrawPolyline(path, measures.line, colours.path, kPathOpacity, frame);

  const Points plan = PointsOf(moment.plan, hand, moment.n_marks, *frame);
  const double dot = DotRadius(plan, measures);
  const std::size_t n_executed = std::min(moment.n_executed, plan.size());
  const auto executed = std::span(plan).first(n_executed);
  DrawPolyline(executed, measures.line, colours.executed, kExecutedOpacity, frame);
  DrawDots(executed, 0.75 * dot, colours.executed, kExecutedOpacity, frame);
  DrawPlan(std::span(plan).subspan(n_executed), dot, measures, colours.plan, frame);
}

// At the bottom left: a grid of videos puts its captions at the top.
void DrawFacts(const VideoMoment& moment, const Measures& measures, RgbImage* frame) {
  const int height = measures.caption;
  const Colour& bar = moment.success ? kSuccess : kCaptionBar;
  if (moment.success) {
    DrawBorder(measures.border, kSuccess, frame);
    DrawCaption("success", 0, frame->height - 2 * height, height, bar, frame);
  }
  DrawCaption(fmt::format("step {}  score {:.2f}", moment.step, moment.score), 0,
              frame->height - height, height, bar, frame);
}

}  // namespace

void DrawOverlay(const VideoMoment& moment, RgbImage* frame) {
  const Measures measures(*frame);
  for (std::size_t hand = 0; hand < moment.n_marks; ++hand) {
    DrawHand(moment, hand, measures, frame);
  }
  DrawFacts(moment, measures, frame);
}

}  // namespace dp_bench::media
