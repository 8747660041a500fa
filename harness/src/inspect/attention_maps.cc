// See attention_maps.h.
#include "inspect/attention_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/output_file.h"
#include "report/heat_map.h"
#include "report/render.h"

namespace dp_bench::inspect {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kNamedColumns = 3;

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

Json MapJson(const AttentionMap& map) {
  return {{"name", map.name},
          {"rows", map.rows},
          {"columns", map.columns},
          {"mean", map.Mean()},
          {"heads", map.heads}};
}

// A table of the means. Its columns have numbers, because their names are long.
Json MeanTable(const AttentionMap& map) {
  Json columns = Json::array();
  for (const std::string& column : map.columns) {
    columns.push_back({{"number", columns.size() + 1}, {"name", column}});
  }
  Json rows = Json::array();
  const AttentionShares mean = map.Mean();
  for (std::size_t i = 0; i < mean.size(); ++i) {
    rows.push_back({{"name", map.rows[i]}, {"shares", mean[i]}});
  }
  return {{"name", map.name}, {"columns", columns}, {"rows", rows}};
}

std::string Picture(const AttentionMap& map, const AttentionShares& shares, bool has_labels) {
  return report::HeatMapSvg(
      {.rows = map.rows, .columns = map.columns, .shares = shares, .has_labels = has_labels});
}

// A map with its images and the columns that each head looks at most.
Json PictureJson(const AttentionMap& map) {
  Json heads = Json::array();
  for (const AttentionShares& head : map.heads) {
    heads.push_back({{"number", heads.size() + 1},
                     {"top", TopColumns(head, map.columns)},
                     {"svg", Picture(map, head, /*has_labels=*/false)}});
  }
  return {
      {"name", map.name}, {"svg", Picture(map, map.Mean(), /*has_labels=*/true)}, {"heads", heads}};
}

template <class Form>
Json ListOf(const std::vector<AttentionMap>& maps, const Form& form) {
  Json list = Json::array();
  for (const AttentionMap& map : maps) list.push_back(form(map));
  return list;
}

// What text and page show.
Json ViewOf(const AttentionInspection& inspection) {
  return {{"title", fmt::format("Attention of {} on {}", inspection.policy, inspection.task)},
          {"observation", inspection.observation},
          {"n_steps", inspection.n_steps},
          {"tables", ListOf(inspection.means, MeanTable)},
          {"summaries", ListOf(inspection.means, PictureJson)},
          {"maps", ListOf(inspection.maps, PictureJson)}};
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
  return report::Render("attention.txt", ViewOf(inspection));
}

nlohmann::json ToJson(const AttentionInspection& inspection) {
  Json means = ListOf(inspection.means, MapJson);
  for (Json& mean : means) mean.erase("heads");
  return {{"policy", inspection.policy},
          {"task", inspection.task},
          {"observation", inspection.observation},
          {"denoising_steps", inspection.n_steps},
          {"means", means},
          {"maps", ListOf(inspection.maps, MapJson)}};
}

void WriteAttentionPage(const AttentionInspection& inspection, const std::filesystem::path& file) {
  core::WriteOutput(file, report::Render("attention.html", ViewOf(inspection)));
}

}  // namespace dp_bench::inspect
