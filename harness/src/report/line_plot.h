// A line plot as inline SVG. Colours come from the page's style sheet (classes series-0, series-1),
// so that the plot follows its light and dark theme.
#pragma once

#include <string>
#include <vector>

#include "run/run_folder.h"

namespace dp_bench::report {

struct PlotSeries {
  std::string label;
  std::vector<run::CurvePoint> points;  // by epoch, ascending
};

struct LinePlot {
  std::string title;
  std::vector<PlotSeries> series;
  bool log_y = false;       // values that are not positive are left out
  bool unit_range = false;  // the y axis shows at least [0, 1]
  std::string x_label = "epoch";
  std::vector<double> x_marks = {};  // strokes on the x axis, where something happened
  double width = 480.0;              // of the drawing, which the page scales to its column
  double height = 260.0;
};

/// An <svg> element, or an empty text when there is nothing to draw. All text in it is escaped.
std::string LinePlotSvg(const LinePlot& plot);

/// Text as HTML and XML content or attribute.
std::string EscapeHtml(const std::string& text);

}  // namespace dp_bench::report
