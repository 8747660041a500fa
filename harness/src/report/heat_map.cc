// See heat_map.h. Rows go down; the names of columns stand upright below them.
#include "report/heat_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/line_plot.h"

namespace dp_bench::report {
namespace {

constexpr double kCell = 16.0;
constexpr double kLetter = 6.2;  // width of a letter of 11 px
constexpr double kGap = 6.0;

std::size_t LongestName(const std::vector<std::string>& names) {
  std::size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  return longest;
}

std::string Labels(const HeatMap& map, double left) {
  std::string svg;
  for (std::size_t row = 0; row < map.rows.size(); ++row) {
    svg += fmt::format(R"(<text class="tick" text-anchor="end" x="{:.1f}" y="{:.1f}">{}</text>)",
                       left - kGap, (static_cast<double>(row) + 0.75) * kCell,
                       EscapeHtml(map.rows[row]));
  }
  const double below = static_cast<double>(map.rows.size()) * kCell + kGap;
  for (std::size_t column = 0; column < map.columns.size(); ++column) {
    const double x = left + (static_cast<double>(column) + 0.3) * kCell;
    svg += fmt::format(
        R"svg(<text class="tick" transform="translate({:.1f} {:.1f}) rotate(90)">{}</text>)svg", x,
        below, EscapeHtml(map.columns[column]));
  }
  return svg;
}

}  // namespace

std::string HeatMapSvg(const HeatMap& map) {
  const auto space_for = [&](const std::vector<std::string>& names) {
    return map.has_labels ? static_cast<double>(LongestName(names)) * kLetter + 2.0 * kGap : 0.0;
  };
  const double left = space_for(map.rows);
  const double width = left + static_cast<double>(map.columns.size()) * kCell;
  const double height = static_cast<double>(map.rows.size()) * kCell + space_for(map.columns);
  std::string svg = fmt::format(
      R"(<svg class="plot heat" viewBox="0 0 {:.0f} {:.0f}" style="width:{:.0f}px" role="img">)",
      width, height, width);
  for (std::size_t row = 0; row < map.rows.size(); ++row) {
    for (std::size_t column = 0; column < map.columns.size(); ++column) {
      const double share = map.shares[row][column];
      svg +=
          fmt::format(R"(<rect class="cell" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" )"
                      R"(fill-opacity="{:.3f}"><title>{} → {}: {:.3f}</title></rect>)",
                      left + static_cast<double>(column) * kCell, static_cast<double>(row) * kCell,
                      kCell - 1.0, kCell - 1.0, std::clamp(share, 0.0, 1.0),
                      EscapeHtml(map.rows[row]), EscapeHtml(map.columns[column]), share);
    }
  }
  if (map.has_labels) svg += Labels(map, left);
  return svg + "</svg>";
}

}  // namespace dp_bench::report
