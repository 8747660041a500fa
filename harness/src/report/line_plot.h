// A line plot as inline SVG. Colours come from the page's style sheet (classes series-0, series-1),
// so that the plot follows the light and dark theme.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "run/run_folder.h"

namespace dp_bench::report {

struct PlotSeries {
  std::string label;
  std::vector<run::CurvePoint> points;                    // by epoch, ascending
  std::vector<std::pair<double, double>> intervals = {};  // from low to high, of each point, if any
};

struct LinePlot {
  std::string title;
  std::vector<PlotSeries> series;
  bool log_y = false;       // skips values <= 0
  bool unit_range = false;  // the y axis shows at least [0, 1]
  bool from_zero = false;   // the y axis shows 0 too
  std::string x_label = "epoch";
  std::vector<double> x_marks = {};  // tick marks for events
  double height = 260.0;             // the page scales the plot to its column
};

/// An <svg> element, or an empty text if there is nothing to draw. Escapes all text.
std::string LinePlotSvg(const LinePlot& plot);

/// Escapes text for HTML and XML content and attributes.
std::string EscapeHtml(const std::string& text);

}  // namespace dp_bench::report
