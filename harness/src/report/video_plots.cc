// Coordinates are whole thousandths of the frame's width, finer than the drawing.
#include "report/video_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

namespace dp_bench::report {
namespace {

constexpr double kPlaneWidth = 1000.0;        // of the plane
constexpr std::size_t kMaxPathPoints = 3000;  // of all lines of one kind
constexpr std::size_t kMaxDims = 4;
constexpr double kLowPlot = 150.0;

std::size_t StrideFor(std::size_t n_points) {
  return std::max<std::size_t>(1, (n_points + kMaxPathPoints - 1) / kMaxPathPoints);
}

// The position of a mark; NaN if it is not visible.
struct Point {
  double x;
  double y;
  bool is_shown() const { return std::isfinite(x) && std::isfinite(y); }
};

class Plane {
 public:
  Plane(const run::VideoNotes& notes, double aspect)
      : notes_(notes), height_(kPlaneWidth * aspect) {}

  double height() const { return height_; }

  Point State(std::size_t step, std::size_t mark) const {
    return At(notes_.state_marks, step * n_marks() + mark);
  }
  Point Planned(std::size_t plan, std::size_t row, std::size_t mark) const {
    return At(notes_.plan_marks, (plan * n_rows() + row) * n_marks() + mark);
  }

  std::size_t n_marks() const { return static_cast<std::size_t>(notes_.n_marks); }
  std::size_t n_rows() const { return static_cast<std::size_t>(notes_.n_action_steps); }

  Point At(const std::vector<float>& marks, std::size_t index) const {
    return {std::round(kPlaneWidth * static_cast<double>(marks[2 * index])),
            std::round(height_ * static_cast<double>(marks[2 * index + 1]))};
  }

 private:
  const run::VideoNotes& notes_;
  double height_;
};

// The `d` of an SVG path from many lines. Points that are not visible interrupt them.
class PathBuilder {
 public:
  void Begin() { is_drawing_ = false; }

  void Add(const Point& point) {
    if (!point.is_shown()) {
      Begin();
    } else if (!is_drawing_) {
      text_ += fmt::format("M{:.0f} {:.0f}L", point.x, point.y);
      is_drawing_ = true;
    }
    // a line to the same point draws a dot for a line of one point
    if (is_drawing_) text_ += fmt::format("{:.0f} {:.0f} ", point.x, point.y);
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool is_drawing_ = false;
};

// The part of the plane that is shown.
struct View {
  double left = 0.0;
  double top = 0.0;
  double width = kPlaneWidth;
};

// Everything that is drawn, with a margin, in the shape of the video's frame.
View ViewOf(const run::VideoNotes& notes, const Plane& plane) {
  constexpr double kMargin = 40.0;
  constexpr double kLeastWidth = 200.0;  // a hand that hardly moves is not a large movement
  double left = kPlaneWidth;
  double right = 0.0;
  double top = plane.height();
  double bottom = 0.0;
  for (const std::vector<float>* marks : {&notes.state_marks, &notes.plan_marks}) {
    for (std::size_t i = 0; i + 1 < marks->size(); i += 2) {
      const Point point = plane.At(*marks, i / 2);
      if (!point.is_shown()) continue;
      left = std::min(left, point.x);
      right = std::max(right, point.x);
      top = std::min(top, point.y);
      bottom = std::max(bottom, point.y);
    }
  }
  const double aspect = plane.height() / kPlaneWidth;
  const double width =
      std::round(std::max({right - left, (bottom - top) / aspect, kLeastWidth}) + 2.0 * kMargin);
  return {.left = std::round(0.5 * (left + right - width)),
          .top = std::round(0.5 * (top + bottom - width * aspect)),
          .width = width};
}

// The plans of one parity.
std::string PlanPath(const run::VideoNotes& notes, const Plane& plane, std::size_t parity) {
  const std::size_t stride = StrideFor(notes.plan_step.size() * plane.n_rows() * plane.n_marks());
  PathBuilder path;
  for (std::size_t plan = parity; plan < notes.plan_step.size(); plan += 2) {
    for (std::size_t mark = 0; mark < plane.n_marks(); ++mark) {
      path.Begin();
      path.Add(plane.State(static_cast<std::size_t>(notes.plan_step[plan]), mark));
      // keeps the last one
      for (std::size_t row = (plane.n_rows() - 1) % stride; row < plane.n_rows(); row += stride) {
        path.Add(plane.Planned(plan, row, mark));
      }
    }
  }
  return path.text();
}

std::string ExecutedPath(const run::VideoNotes& notes, const Plane& plane) {
  const std::size_t n = notes.reward.size() + 1;
  const std::size_t stride = StrideFor(n * plane.n_marks());
  PathBuilder path;
  for (std::size_t mark = 0; mark < plane.n_marks(); ++mark) {
    path.Begin();
    for (std::size_t step = (n - 1) % stride; step < n; step += stride) {
      path.Add(plane.State(step, mark));
    }
  }
  return path.text();
}

std::string Dot(const char* style, const Point& point, const View& view) {
  if (!point.is_shown()) return "";
  return fmt::format(R"(<circle class="{}" cx="{:.0f}" cy="{:.0f}" r="{:.1f}"/>)", style, point.x,
                     point.y, 0.014 * view.width);
}

std::vector<double> PlanSteps(const run::VideoNotes& notes) {
  return {notes.plan_step.begin(), notes.plan_step.end()};
}

float PlannedValue(const run::VideoNotes& notes, std::size_t plan, std::int64_t row,
                   std::size_t dim) {
  const auto n_dims = static_cast<std::size_t>(notes.action_dim);
  const auto n_rows = static_cast<std::size_t>(notes.n_action_steps);
  return notes.plan[(plan * n_rows + static_cast<std::size_t>(row)) * n_dims + dim];
}

// Per dimension of the action, over all plans.
std::vector<float> RangesOfPlans(const run::VideoNotes& notes) {
  const auto n_dims = static_cast<std::size_t>(notes.action_dim);
  std::vector<float> ranges(n_dims);
  for (std::size_t dim = 0; dim < n_dims && !notes.plan.empty(); ++dim) {
    float low = notes.plan[dim];
    float high = low;
    for (std::size_t i = dim; i < notes.plan.size(); i += n_dims) {
      low = std::min(low, notes.plan[i]);
      high = std::max(high, notes.plan[i]);
    }
    ranges[dim] = high - low;
  }
  return ranges;
}

std::vector<run::CurvePoint> LatestPlan(const run::VideoNotes& notes, std::size_t dim) {
  std::vector<run::CurvePoint> points;
  for (std::size_t plan = 0; plan < notes.plan_step.size(); ++plan) {
    const std::int64_t begin = notes.plan_step[plan];
    std::int64_t n_rows = notes.n_action_steps;
    if (plan + 1 < notes.plan_step.size()) {
      n_rows = std::min(n_rows, notes.plan_step[plan + 1] - begin);
    }
    for (std::int64_t row = 0; row < n_rows; ++row) {
      points.push_back({static_cast<double>(begin + row), PlannedValue(notes, plan, row, dim)});
    }
  }
  return points;
}

}  // namespace

std::string PlannedPathsSvg(const run::VideoNotes& notes, double aspect) {
  if (notes.n_marks == 0) return "";
  const Plane plane(notes, aspect);
  const std::string executed = ExecutedPath(notes, plane);
  if (executed.empty()) return "";
  const View view = ViewOf(notes, plane);
  std::string svg = fmt::format(
      R"(<svg class="plane" viewBox="{:.0f} {:.0f} {:.0f} {:.0f}" role="img" aria-label="planned and executed paths">)"
      R"(<path class="executed" d="{}"/>)",
      view.left, view.top, view.width, view.width * aspect, executed);
  for (const std::size_t parity : {0U, 1U}) {
    const std::string plans = PlanPath(notes, plane, parity);
    if (!plans.empty()) svg += fmt::format(R"(<path class="series-{}" d="{}"/>)", parity, plans);
  }
  for (std::size_t mark = 0; mark < plane.n_marks(); ++mark) {
    svg += Dot("start", plane.State(0, mark), view) +
           Dot("end", plane.State(notes.reward.size(), mark), view);
  }
  return svg + "</svg>";
}

LinePlot RewardPlot(const run::VideoNotes& notes) {
  LinePlot plot = {.title = "Reward",
                   .series = {{"reward", {}}},
                   .unit_range = true,
                   .x_label = "env step",
                   .x_marks = PlanSteps(notes),
                   .height = kLowPlot};
  for (std::size_t i = 0; i < notes.reward.size(); ++i) {
    plot.series[0].points.push_back({static_cast<double>(i + 1), notes.reward[i]});
  }
  return plot;
}

LinePlot ActionPlot(const run::VideoNotes& notes) {
  LinePlot plot = {.title = "Planned action",
                   .series = {},
                   .x_label = "env step",
                   .x_marks = PlanSteps(notes),
                   .height = kLowPlot};
  const std::vector<float> ranges = RangesOfPlans(notes);
  std::vector<std::size_t> dims(ranges.size());
  std::iota(dims.begin(), dims.end(), std::size_t{0});
  std::ranges::stable_sort(dims, std::greater(), [&](std::size_t dim) { return ranges[dim]; });
  if (dims.size() > kMaxDims) dims.resize(kMaxDims);
  std::ranges::sort(dims);
  for (const std::size_t dim : dims) {
    plot.series.push_back({fmt::format("dimension {}", dim), LatestPlan(notes, dim)});
  }
  return plot;
}

}  // namespace dp_bench::report
