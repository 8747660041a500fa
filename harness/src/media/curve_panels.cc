// See curve_panels.h.
#include "media/curve_panels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "media/drawing.h"

namespace dp_bench::media {
namespace {

constexpr int kPanelMargin = 3;
constexpr int kCaptionHeight = 14;
constexpr Colour kPanelPaper = {255, 255, 255};
constexpr Colour kPanelGrid = {214, 214, 214};
constexpr Colour kPanelCaptionBar = {70, 70, 70};
constexpr std::array<Colour, 8> kCurveColours = {{{31, 119, 180},
                                                  {214, 39, 40},
                                                  {44, 160, 44},
                                                  {148, 103, 189},
                                                  {255, 127, 14},
                                                  {23, 150, 170},
                                                  {227, 119, 194},
                                                  {140, 86, 75}}};

// The part of the image in which the values of a panel are drawn.
struct PanelFrame {
  double left = 0.0;
  double top = 0.0;
  double width = 0.0;
  double height = 0.0;

  double YOf(double value, double limit) const {
    return top + height * (0.5 - 0.5 * std::clamp(value / limit, -1.0, 1.0));
  }
};

void DrawCurves(const Curves& curves, double limit, double opacity, const PanelFrame& frame,
                RgbImage* image) {
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::vector<float>& values = curves[i];
    const double step = frame.width / std::max<double>(1.0, static_cast<double>(values.size()) - 1);
    std::vector<PicturePoint> points;
    for (const float value : values) {
      const double y =
          std::isfinite(value) ? frame.YOf(value, limit) : std::numeric_limits<double>::quiet_NaN();
      points.push_back({frame.left + step * static_cast<double>(points.size()), y});
    }
    DrawPolyline(points, 1.5, kCurveColours[i % kCurveColours.size()], opacity, image);
  }
}

void DrawPanel(const CurvePanel& panel, double limit, int left, int top, RgbImage* image) {
  Fill(left, top, kPanelWidth, kPanelHeight, kPanelGrid, image);
  Fill(left + 1, top + 1, kPanelWidth - 2, kPanelHeight - 2, kPanelPaper, image);
  const PanelFrame frame = {.left = static_cast<double>(left + kPanelMargin),
                            .top = static_cast<double>(top + kCaptionHeight + kPanelMargin),
                            .width = kPanelWidth - 2.0 * kPanelMargin,
                            .height = kPanelHeight - kCaptionHeight - 2.0 * kPanelMargin};
  Fill(left + kPanelMargin, static_cast<int>(frame.YOf(0.0, limit)), kPanelWidth - 2 * kPanelMargin,
       1, kPanelGrid, image);
  DrawCurves(panel.pale, limit, 0.3, frame, image);
  DrawCurves(panel.curves, limit, 1.0, frame, image);
  DrawCaption(panel.caption, left + 1, top + 1, kCaptionHeight, kPanelCaptionBar, image);
}

}  // namespace

RgbImage DrawCurvePanels(const std::vector<std::vector<CurvePanel>>& rows, double limit) {
  std::size_t n_columns = 0;
  for (const std::vector<CurvePanel>& row : rows) n_columns = std::max(n_columns, row.size());
  RgbImage image(static_cast<int>(n_columns) * kPanelWidth,
                 static_cast<int>(rows.size()) * kPanelHeight);
  Fill(0, 0, image.width, image.height, kPanelPaper, &image);
  for (std::size_t y = 0; y < rows.size(); ++y) {
    for (std::size_t x = 0; x < rows[y].size(); ++x) {
      DrawPanel(rows[y][x], limit, static_cast<int>(x) * kPanelWidth,
                static_cast<int>(y) * kPanelHeight, &image);
    }
  }
  return image;
}

}  // namespace dp_bench::media
