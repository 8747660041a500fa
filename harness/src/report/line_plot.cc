// Axes with round ticks (steps of 1, 2 or 5 times a power of ten), then one polyline per series.
#include "report/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <kainjow/mustache.hpp>
#include <limits>

namespace dp_bench::report {
namespace {

constexpr double kPlotWidth = 480.0;
constexpr double kLeft = 52.0;
constexpr double kRight = 14.0;
constexpr double kTop = 14.0;
constexpr double kBottom = 34.0;
constexpr double kLowHeight = 200.0;  // too low for more ticks
constexpr double kMarkHeight = 7.0;
constexpr std::size_t kMaxPoints = 800;  // per series; more than the plot has pixel columns

// An axis: data range in plot units (log10 for a logarithmic axis), position and ticks.
struct Axis {
  double low = 0.0;
  double high = 1.0;
  bool is_log = false;
  double begin = 0.0;  // position of `low`
  double end = 0.0;
  std::vector<double> ticks;  // in data units

  double ToPlot(double value) const { return is_log ? std::log10(value) : value; }
  double At(double value) const {
    return begin + (end - begin) * (ToPlot(value) - low) / (high - low);
  }
};

std::vector<double> LinearTicks(double low, double high, int n_wanted) {
  const double rough = (high - low) / n_wanted;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10.0 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double tolerance = 1e-9 * (high - low);  // a tick at the end survives rounding
  for (double k = std::ceil((low - tolerance) / step); k * step <= high + tolerance; ++k) {
    ticks.push_back(k * step);
  }
  return ticks;
}

// Powers of ten; below two decades also 2 and 5 times them.
std::vector<double> LogTicks(double low, double high) {
  std::vector<double> ticks;
  const int stride = std::max(1, static_cast<int>((high - low) / 6.0));
  for (int decade = static_cast<int>(std::floor(low)); decade <= std::ceil(high);
       decade += stride) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1.0 && high - low > 2.0) continue;
      const double tick = factor * std::pow(10.0, decade);
      if (std::log10(tick) >= low - 1e-9 && std::log10(tick) <= high + 1e-9) ticks.push_back(tick);
    }
  }
  return ticks;
}

bool IsDrawable(const run::CurvePoint& point, bool log_y) {
  return std::isfinite(point.epoch) && std::isfinite(point.value) && (!log_y || point.value > 0.0);
}

// Drops points that cannot be drawn, thins out the rest, and keeps the last point.
std::vector<run::CurvePoint> DrawablePoints(const PlotSeries& series, bool log_y) {
  std::vector<run::CurvePoint> points;
  for (const run::CurvePoint& point : series.points) {
    if (IsDrawable(point, log_y)) points.push_back(point);
  }
  if (points.size() <= kMaxPoints) return points;
  std::vector<run::CurvePoint> thinned;
  const std::size_t stride = (points.size() + kMaxPoints - 1) / kMaxPoints;
  for (std::size_t i = (points.size() - 1) % stride; i < points.size(); i += stride) {
    thinned.push_back(points[i]);
  }
  return thinned;
}

void Cover(double value, Axis* axis) {
  axis->low = std::min(axis->low, value);
  axis->high = std::max(axis->high, value);
}

// Widens a range of a single value and adds a margin above and below.
void Finish(bool add_air, int n_ticks, Axis* axis) {
  double span = axis->high - axis->low;
  if (!(span > 1e-9 * std::max(std::abs(axis->low), std::abs(axis->high)))) {
    const double half = axis->is_log ? 0.5 : std::max(0.5 * std::abs(axis->high), 0.5);
    axis->low -= half;
    axis->high += half;
    span = 2.0 * half;
  } else if (add_air) {
    axis->low -= 0.04 * span;
    axis->high += 0.04 * span;
  }
  axis->ticks =
      axis->is_log ? LogTicks(axis->low, axis->high) : LinearTicks(axis->low, axis->high, n_ticks);
  if (axis->ticks.size() < 2 && axis->is_log) {  // a range of less than about a factor of two
    axis->ticks = LinearTicks(std::pow(10.0, axis->low), std::pow(10.0, axis->high), n_ticks);
  }
}

std::string TickText(double tick) {
  const double size = std::abs(tick);
  if (size < 1e-12) return "0";
  return size >= 1e-3 && size < 1e6 ? fmt::format("{:.6g}", tick) : fmt::format("{:.0e}", tick);
}

std::string AxesSvg(const Axis& x, const Axis& y, const std::string& x_label) {
  std::string svg;
  for (const double tick : y.ticks) {
    svg += fmt::format(R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)",
                       x.begin, x.end, y.At(tick), y.At(tick));
    svg += fmt::format(R"(<text class="tick" text-anchor="end" x="{:.1f}" y="{:.1f}">{}</text>)",
                       x.begin - 7.0, y.At(tick) + 3.5, TickText(tick));
  }
  for (const double tick : x.ticks) {
    svg += fmt::format(R"(<text class="tick" text-anchor="middle" x="{:.1f}" y="{:.1f}">{}</text>)",
                       x.At(tick), y.begin + 15.0, TickText(tick));
  }
  svg += fmt::format(R"(<text class="tick" text-anchor="middle" x="{:.1f}" y="{:.1f}">{}</text>)",
                     (x.begin + x.end) / 2.0, y.begin + kBottom - 4.0, EscapeHtml(x_label));
  return svg;
}

// Short tick marks on the x axis, as one element.
std::string MarksSvg(const std::vector<double>& marks, const Axis& x, const Axis& y) {
  std::string strokes;
  for (const double mark : marks) {
    strokes += fmt::format("M{:.1f} {:.1f}v-{:.0f}", x.At(mark), y.begin, kMarkHeight);
  }
  return strokes.empty() ? "" : fmt::format(R"(<path class="mark" d="{}"/>)", strokes);
}

std::string SeriesSvg(const std::vector<run::CurvePoint>& points, std::size_t index, const Axis& x,
                      const Axis& y, const std::string& x_label) {
  std::string coordinates;
  for (const run::CurvePoint& point : points) {
    coordinates += fmt::format("{:.1f},{:.1f} ", x.At(point.epoch), y.At(point.value));
  }
  std::string svg = fmt::format(R"(<polyline class="series-{}" points="{}"/>)", index, coordinates);
  // draw few points as dots, so that a single one is visible
  constexpr std::size_t kMaxDots = 40;
  for (const run::CurvePoint& point : points) {
    if (points.size() > kMaxDots) break;
    svg += fmt::format(
        R"(<circle class="series-{}" cx="{:.1f}" cy="{:.1f}" r="2.6"><title>{} {:.6g}: {:.4g}</title></circle>)",
        index, x.At(point.epoch), y.At(point.value), EscapeHtml(x_label), point.epoch, point.value);
  }
  return svg;
}

// Drawn only where all points are.
std::string IntervalsSvg(const PlotSeries& series, std::size_t index, const Axis& x,
                         const Axis& y) {
  std::string strokes;
  for (std::size_t i = 0; i < std::min(series.points.size(), series.intervals.size()); ++i) {
    const auto& [low, high] = series.intervals[i];
    strokes +=
        fmt::format("M{:.1f} {:.1f}V{:.1f}", x.At(series.points[i].epoch), y.At(low), y.At(high));
  }
  return strokes.empty()
             ? ""
             : fmt::format(R"(<path class="interval series-{}" d="{}"/>)", index, strokes);
}

}  // namespace

std::string LinePlotSvg(const LinePlot& plot) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Axis x{.low = kInfinity, .high = -kInfinity, .begin = kLeft, .end = kPlotWidth - kRight};
  Axis y{.low = kInfinity,
         .high = -kInfinity,
         .is_log = plot.log_y,
         .begin = plot.height - kBottom,
         .end = kTop};
  std::vector<std::vector<run::CurvePoint>> drawn;
  for (const PlotSeries& series : plot.series) {
    drawn.push_back(DrawablePoints(series, plot.log_y));
    for (const run::CurvePoint& point : drawn.back()) {
      Cover(point.epoch, &x);
      Cover(y.ToPlot(point.value), &y);
    }
    for (const auto& [low, high] : series.intervals) {
      Cover(y.ToPlot(low), &y);
      Cover(y.ToPlot(high), &y);
    }
  }
  if (x.low > x.high) return "";
  for (const double mark : plot.x_marks) Cover(mark, &x);
  const bool is_unit = plot.unit_range && !plot.log_y && y.low >= 0.0 && y.high <= 1.0;
  if (is_unit) {
    Cover(0.0, &y);
    Cover(1.0, &y);
  }
  if (plot.from_zero && !plot.log_y) Cover(0.0, &y);
  Finish(/*add_air=*/false, 6, &x);
  Finish(/*add_air=*/!is_unit, plot.height < kLowHeight ? 3 : 5, &y);

  std::string svg =
      fmt::format(R"(<svg class="plot" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">)",
                  kPlotWidth, plot.height, EscapeHtml(plot.title));
  svg += AxesSvg(x, y, plot.x_label) + MarksSvg(plot.x_marks, x, y);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    svg += IntervalsSvg(plot.series[i], i, x, y) + SeriesSvg(drawn[i], i, x, y, plot.x_label);
  }
  return svg + "</svg>";
}

std::string EscapeHtml(const std::string& text) { return kainjow::mustache::html_escape(text); }

}  // namespace dp_bench::report
