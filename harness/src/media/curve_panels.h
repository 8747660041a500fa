// An image of small plots in rows, all with one scale.
#pragma once

#include <string>
#include <vector>

#include "dp_bench/env.h"

namespace dp_bench::media {

/// Values over the steps 0, 1, ...
using Curves = std::vector<std::vector<float>>;

struct CurvePanel {
  std::string caption;
  Curves curves;
  Curves pale = {};  // drawn behind them, in the same colours
};

inline constexpr int kPanelWidth = 160;   // [px]
inline constexpr int kPanelHeight = 120;  // [px]

/// Each panel shows the values from -limit to limit; what lies beyond is drawn at its edge. Curve i
/// has the same colour in all panels. Values that are not finite interrupt a curve. Rows may differ
/// in length.
RgbImage DrawCurvePanels(const std::vector<std::vector<CurvePanel>>& rows, double limit);

}  // namespace dp_bench::media
