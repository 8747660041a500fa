#include "report/page_data.h"

#include <fmt/format.h>

#include <string_view>

#include "dp_bench/error.h"
#include "run/run_folder.h"

namespace dp_bench::report {

using kainjow::mustache::data;

data List() { return data(data::type::list); }

std::string RenderPage(const char* page_template, const data& page) {
  constexpr std::string_view kNoBreak = "\u00a0";
  kainjow::mustache::mustache parsed(page_template);
  DPB_ASSERT(parsed.is_valid());
  const std::string html = parsed.render(page);
  std::string result;
  result.reserve(html.size());
  for (std::size_t i = 0; i < html.size(); ++i) {
    const bool is_between = i > 0 && i + 1 < html.size() && html[i] == ' ' && html[i + 1] == '%' &&
                            ((html[i - 1] >= '0' && html[i - 1] <= '9') || html[i - 1] == '>');
    result.append(is_between ? kNoBreak : std::string_view(html).substr(i, 1));
  }
  return result;
}

std::string Percent(double fraction) { return fmt::format("{:.1f}", 100.0 * fraction); }

std::string LinkTo(const std::filesystem::path& relative_path) {
  std::string link = "./";
  for (const char c : relative_path.generic_string()) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("/._-=").find(c) != std::string_view::npos;
    link += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return link;
}

std::string LinkBelow(const std::string& relative_path) {
  if (!run::StaysBelow(relative_path)) return "";
  return LinkTo(std::filesystem::path(relative_path).lexically_normal());
}

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
