// A plot as the pages' templates want it.
#pragma once

#include <kainjow/mustache.hpp>

#include "report/line_plot.h"

namespace dp_bench {

/// Appends {name, series: [{index, label}], has_legend, svg} to the list `plots`; nothing for an
/// empty plot.
void AppendPlot(const LinePlot& plot, kainjow::mustache::data* plots);

}  // namespace dp_bench
