// Shows results. A result has one ToJson; what a terminal, a pull request or a browser shows of it
// is a mustache template in this folder, compiled in. Its name says the form and what is escaped:
// ".txt" and ".csv" nothing, ".md" Markdown, ".tex" LaTeX, ".xml" and ".html" markup. Beside
// mustache (mustache.github.io):
//
//   {{score:+.3f}}     a number in a format of std::format; with % it is multiplied by 100, with G
//                      in units of 10^9, with M in MiB (2^20): {{rate:.1%}} is "25.4"
//   {{name:<12}}       a text in a format
//   {{#has_rows}}      whether the list `rows` is not empty
//   {{#table}} ... {{/table}}   lines of cells with " | " between them: aligned columns in a text,
//                      else a table of Markdown or HTML; nothing without rows. The first line names
//                      the columns: ">steps" is of numbers, which end below each other, "-" has no
//                      name
//   {{>part.html}}     another template; {{>report.css}} is the style sheet
//
// null, "" and false are not there: {{^note}}none{{/note}}. A line that has only the tag of a
// section leaves no line behind.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "report/line_plot.h"

namespace dp_bench::report {

/// The texts of the templates by name, "report.html".
const std::map<std::string_view, std::string_view>& Templates();

/// `result` in the template `name`.
std::string Render(std::string_view name, const nlohmann::json& result);

/// A relative path as the value of href or src: percent-encoded, with a leading "./" so that no
/// path looks like a URL with a scheme. The page and its files may be moved together.
std::string LinkTo(const std::filesystem::path& relative_path);

/// A link to a file below the page's folder; empty for a path outside.
std::string LinkBelow(const std::string& relative_path);

/// Bytes inside a page (RFC 2397, RFC 4648): "data:image/png;base64,...".
std::string DataUrl(std::string_view type, std::string_view bytes);

/// Appends {name, series: [{index, label}], has_legend, svg} to the list `plots` for the template
/// plots.html, unless the plot is empty.
void AppendPlot(const LinePlot& plot, nlohmann::json* plots);

}  // namespace dp_bench::report
