// Data for the templates of pages.
#pragma once

#include <filesystem>
#include <kainjow/mustache.hpp>
#include <string>

#include "report/line_plot.h"

namespace dp_bench::report {

/// An empty list.
kainjow::mustache::data List();

/// The page of a template. A number and its "%" stay on one line.
std::string RenderPage(const char* page_template, const kainjow::mustache::data& page);

/// 0.254 as "25.4".
std::string Percent(double fraction);

/// A relative path as the value of href or src: percent-encoded, with a leading "./" so that no
/// path looks like a URL with a scheme. The page and its files may be moved together.
std::string LinkTo(const std::filesystem::path& relative_path);

/// A link to a file below the page's folder; empty for a path outside.
std::string LinkBelow(const std::string& relative_path);

/// Appends {name, series: [{index, label}], has_legend, svg} to the list `plots`, unless the plot
/// is empty.
void AppendPlot(const LinePlot& plot, kainjow::mustache::data* plots);

}  // namespace dp_bench::report
