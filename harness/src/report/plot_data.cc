#include "report/plot_data.h"

#include <string>

namespace dp_bench {

void AppendPlot(const LinePlot& plot, kainjow::mustache::data* plots) {
  using kainjow::mustache::data;
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

}  // namespace dp_bench
