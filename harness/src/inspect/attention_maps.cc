// See attention_maps.h.
#include "inspect/attention_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <kainjow/mustache.hpp>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/output_file.h"
#include "dp_bench/error.h"
#include "report/heat_map.h"
#include "report/render.h"

namespace dp_bench::inspect {
namespace {

using PageData = kainjow::mustache::data;

constexpr std::size_t kNamedColumns = 3;

// Columns have numbers, because their names are long.
std::string AttentionTable(const AttentionMap& map) {
  std::string text = map.name + "\n";
  for (std::size_t i = 0; i < map.columns.size(); ++i) {
    text += fmt::format("  [{}] {}\n", i + 1, map.columns[i]);
  }
  text += fmt::format("  {:<14}", "");
  for (std::size_t i = 0; i < map.columns.size(); ++i) {
    text += fmt::format(" {:>5}", fmt::format("[{}]", i + 1));
  }
  text += "\n";
  const AttentionShares mean = map.Mean();
  for (std::size_t row = 0; row < mean.size(); ++row) {
    text += fmt::format("  {:<14}", map.rows[row]);
    for (const double share : mean[row]) text += fmt::format(" {:>5.2f}", share);
    text += "\n";
  }
  return text + "\n";
}

// "agent_pos t 0.61, timestep 0.22, action t+1 0.05": the mean over rows.
std::string TopColumns(const AttentionShares& shares, const std::vector<std::string>& columns) {
  std::vector<double> mean(columns.size(), 0.0);
  for (const std::vector<double>& row : shares) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      mean[i] += row[i] / static_cast<double>(shares.size());
    }
  }
  std::vector<std::size_t> order(columns.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return mean[a] > mean[b]; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamedColumns, order.size()); ++i) {
    text += fmt::format("{}{} {:.2f}", i == 0 ? "" : ", ", columns[order[i]], mean[order[i]]);
  }
  return text;
}

nlohmann::json MapJson(const AttentionMap& map) {
  return {{"name", map.name},
          {"rows", map.rows},
          {"columns", map.columns},
          {"mean", map.Mean()},
          {"heads", map.heads}};
}

std::string Picture(const AttentionMap& map, const AttentionShares& shares, bool has_labels) {
  return report::HeatMapSvg(
      {.rows = map.rows, .columns = map.columns, .shares = shares, .has_labels = has_labels});
}

PageData PageMap(const AttentionMap& map) {
  PageData heads = report::List();
  for (std::size_t i = 0; i < map.heads.size(); ++i) {
    PageData head;
    head.set("number", std::to_string(i + 1));
    head.set("svg", Picture(map, map.heads[i], /*has_labels=*/false));
    heads.push_back(head);
  }
  PageData entry;
  entry.set("name", map.name);
  entry.set("svg", Picture(map, map.Mean(), /*has_labels=*/true));
  entry.set("heads", heads);
  return entry;
}

PageData PageMaps(const std::vector<AttentionMap>& maps) {
  PageData list = report::List();
  for (const AttentionMap& map : maps) list.push_back(PageMap(map));
  return list;
}

std::string AttentionTitle(const AttentionInspection& inspection) {
  return fmt::format("Attention of {} on {}", inspection.policy, inspection.task);
}

}  // namespace

AttentionShares Averaged(const std::vector<AttentionShares>& all) {
  AttentionShares mean = all.front();
  for (std::size_t row = 0; row < mean.size(); ++row) {
    for (std::size_t column = 0; column < mean[row].size(); ++column) {
      double sum = 0.0;
      for (const AttentionShares& each : all) sum += each[row][column];
      mean[row][column] = sum / static_cast<double>(all.size());
    }
  }
  return mean;
}

AttentionShares AttentionMap::Mean() const { return Averaged(heads); }

std::string ToText(const AttentionInspection& inspection) {
  std::string text =
      fmt::format("{}, {}, mean over {} denoising steps\n\n", AttentionTitle(inspection),
                  inspection.observation, inspection.n_steps);
  for (const AttentionMap& map : inspection.means) text += AttentionTable(map);
  text += "what each head looks at most, with its share\n";
  for (const AttentionMap& map : inspection.maps) {
    text += "  " + map.name + "\n";
    for (std::size_t i = 0; i < map.heads.size(); ++i) {
      text += fmt::format("    head {:<3} {}\n", i + 1, TopColumns(map.heads[i], map.columns));
    }
  }
  return text;
}

nlohmann::json ToJson(const AttentionInspection& inspection) {
  nlohmann::json maps = nlohmann::json::array();
  for (const AttentionMap& map : inspection.maps) maps.push_back(MapJson(map));
  nlohmann::json means = nlohmann::json::array();
  for (const AttentionMap& map : inspection.means) {
    nlohmann::json mean = MapJson(map);
    mean.erase("heads");
    means.push_back(std::move(mean));
  }
  return {{"policy", inspection.policy},
          {"task", inspection.task},
          {"observation", inspection.observation},
          {"denoising_steps", inspection.n_steps},
          {"means", means},
          {"maps", maps}};
}

void WriteAttentionPage(const AttentionInspection& inspection, const std::filesystem::path& file) {
  PageData page;
  page.set("title", AttentionTitle(inspection));
  page.set("observation", inspection.observation);
  page.set("n_steps", std::to_string(inspection.n_steps));
  page.set("summaries", PageMaps(inspection.means));
  page.set("maps", PageMaps(inspection.maps));
  core::WriteOutput(file, report::RenderPage("attention.html", page));
}

}  // namespace dp_bench::inspect
