// A matrix of shares as inline SVG: the darker a cell, the larger its share. Colours come from the
// page's style sheet, so that the image follows the light and dark theme.
#pragma once

#include <string>
#include <vector>

namespace dp_bench::report {

struct HeatMap {
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::vector<std::vector<double>> shares;  // [rows][columns], 0 to 1
  bool has_labels = true;                   // otherwise only the cells, for small images
};

/// An <svg> element. A cell tells its row, column and share when the pointer rests on it. Escapes
/// all text.
std::string HeatMapSvg(const HeatMap& map);

}  // namespace dp_bench::report
