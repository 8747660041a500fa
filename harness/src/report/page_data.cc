#include "report/page_data.h"

#include <fmt/format.h>

namespace dp_bench::report {

using kainjow::mustache::data;

data List() { return data(data::type::list); }

std::string Percent(double fraction) { return fmt::format("{:.1f}", 100.0 * fraction); }

void AppendPlot(const LinePlot& plot, data* plots) {
  const std::string svg = LinePlotSvg(plot);
  if (svg.empty()) return;
  data series(data::type::list);
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    data entry;
    entry.set("index", std::to_string(i));
    entry.set("label", plot.series[i].label);
    series.push_back(entry);
  }
  data item;
  item.set("name", plot.title);
  item.set("series", series);
  item.set("has_legend", plot.series.size() > 1);
  item.set("svg", svg);
  plots->push_back(item);
}

}  // namespace dp_bench::report
