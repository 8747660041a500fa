// What the pages' templates are filled with.
#pragma once

#include <kainjow/mustache.hpp>
#include <string>

#include "report/line_plot.h"

namespace dp_bench::report {

/// An empty list.
kainjow::mustache::data List();

/// 0.254 as "25.4".
std::string Percent(double fraction);

/// Appends {name, series: [{index, label}], has_legend, svg} to the list `plots`; nothing for an
/// empty plot.
void AppendPlot(const LinePlot& plot, kainjow::mustache::data* plots);

}  // namespace dp_bench::report
