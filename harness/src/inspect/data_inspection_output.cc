// The output forms of a DataInspection: text tables, JSON, and an HTML page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <kainjow/mustache.hpp>
#include <map>

#include "core/base64.h"
#include "core/output_file.h"
#include "data/key_check.h"
#include "dp_bench/error.h"
#include "inspect/data_inspection.h"
#include "media/png.h"
#include "report/render.h"

namespace dp_bench::inspect {
namespace {

using kainjow::mustache::data;

constexpr int kBins = 20;
constexpr std::size_t kMaxPlots = 24;

struct Bin {
  std::int64_t begin = 0;  // steps
  std::int64_t end = 0;
  std::int64_t count = 0;
};

std::vector<Bin> Histogram(const std::vector<std::int64_t>& lengths) {
  const auto [low, high] = std::ranges::minmax(lengths);
  const std::int64_t width = std::max<std::int64_t>(1, (high - low + kBins) / kBins);
  std::vector<Bin> bins;
  for (std::int64_t begin = low; begin <= high; begin += width) {
    bins.push_back({.begin = begin, .end = begin + width - 1});
  }
  for (const std::int64_t length : lengths) {
    ++bins[static_cast<std::size_t>((length - low) / width)].count;
  }
  return bins;
}

std::int64_t LargestCount(const std::vector<Bin>& bins) {
  return std::ranges::max_element(bins, {}, &Bin::count)->count;
}

std::string LengthText(const std::vector<std::int64_t>& lengths) {
  const std::vector<Bin> bins = Histogram(lengths);
  const std::int64_t most = LargestCount(bins);
  std::string text = "episode lengths [steps]\n";
  for (const Bin& bin : bins) {
    const auto width = static_cast<std::size_t>((40 * bin.count + most - 1) / most);
    text += fmt::format("  {:>6} to {:<6} {:>5}  {}\n", bin.begin, bin.end, bin.count,
                        std::string(width, '#'));
  }
  return text;
}

std::string StatsText(const KeyInspection& key) {
  std::string text;
  for (std::size_t d = 0; d < key.stats.min.size(); ++d) {
    text += fmt::format("  {:<24} {:>11.5g} {:>11.5g} {:>11.5g} {:>11.5g}\n",
                        fmt::format("{}[{}]", key.spec.name, d), key.stats.min[d], key.stats.max[d],
                        key.stats.mean[d], key.stats.std[d]);
  }
  return text;
}

nlohmann::json EntryOf(const KeySpec& key) {
  nlohmann::json entry = {{"shape", key.shape}, {"type", Name(key.type)}};
  if (key.type == KeyType::kDepth) entry["dtype"] = Name(key.dtype);
  return entry;
}

// The shape_meta of a config that reads every key.
nlohmann::json ShapeMetaOf(const DataInspection& inspection) {
  nlohmann::json meta = {{"obs", nlohmann::json::object()}};
  for (const KeyInspection& key : inspection.keys) {
    if (key.spec.name == "action") {
      meta["action"] = {{"shape", key.spec.shape}};
    } else {
      meta["obs"][key.spec.name] = EntryOf(key.spec);
    }
  }
  return meta;
}

// A line for each key.
std::string ShapeMetaText(const DataInspection& inspection) {
  const nlohmann::json meta = ShapeMetaOf(inspection);
  std::vector<std::string> keys;
  for (const auto& [name, entry] : meta["obs"].items()) {
    keys.push_back(fmt::format("    {}: {}", nlohmann::json(name).dump(), entry.dump()));
  }
  return fmt::format(
      "shape_meta of a task with all of its keys:\n  \"obs\": {{\n{}\n  }},\n  \"action\": {}\n",
      fmt::join(keys, ",\n"), meta.value("action", nlohmann::json::object()).dump());
}

data KeyRows(const DataInspection& inspection) {
  data rows = report::List();
  for (const KeyInspection& key : inspection.keys) {
    data row;
    row.set("name", key.spec.name);
    row.set("type", std::string(Name(key.spec.type)));
    row.set("shape", ToString(key.spec.shape));
    row.set("dtype", std::string(Name(key.spec.dtype)));
    row.set("n_frames", std::to_string(key.n_frames));
    rows.push_back(row);
  }
  return rows;
}

data StatsRows(const DataInspection& inspection) {
  data rows = report::List();
  for (const KeyInspection& key : inspection.keys) {
    for (std::size_t d = 0; d < key.stats.min.size(); ++d) {
      data row;
      row.set("name", fmt::format("{}[{}]", key.spec.name, d));
      row.set("min", fmt::format("{:.5g}", key.stats.min[d]));
      row.set("max", fmt::format("{:.5g}", key.stats.max[d]));
      row.set("mean", fmt::format("{:.5g}", key.stats.mean[d]));
      row.set("std", fmt::format("{:.5g}", key.stats.std[d]));
      rows.push_back(row);
    }
  }
  return rows;
}

data Bars(const std::vector<std::int64_t>& lengths) {
  const std::vector<Bin> bins = Histogram(lengths);
  const std::int64_t most = LargestCount(bins);
  data bars = report::List();
  for (const Bin& bin : bins) {
    data bar;
    bar.set("label", fmt::format("{} to {}", bin.begin, bin.end));
    bar.set("count", std::to_string(bin.count));
    bar.set("width", std::to_string(100 * bin.count / most));
    bars.push_back(bar);
  }
  return bars;
}

data FindingRows(const Findings& findings) {
  data rows = report::List();
  for (const Finding& finding : findings) {
    if (finding.verdict != Judgement::kConfirmed) continue;
    data row;
    row.set("id", finding.id);
    row.set("claim", finding.claim);
    row.set("evidence", finding.evidence);
    row.set("advice", finding.advice);
    row.set("is_problem", finding.is_problem());
    rows.push_back(row);
  }
  return rows;
}

data Plots(const DataInspection& inspection) {
  std::map<std::pair<std::string, std::int64_t>, report::LinePlot> by_value;
  for (const ValueCurve& curve : inspection.curves) {
    report::LinePlot& plot = by_value[{curve.key, curve.dim}];
    plot.title = fmt::format("{}[{}]", curve.key, curve.dim);
    plot.x_label = "step";
    report::PlotSeries& series = plot.series.emplace_back();
    series.label = fmt::format("episode {}", curve.episode);
    for (std::size_t t = 0; t < curve.values.size(); ++t) {
      series.points.push_back({static_cast<double>(t), static_cast<double>(curve.values[t])});
    }
  }
  data plots = report::List();
  std::size_t n_plots = 0;
  for (const auto& [value, plot] : by_value) {
    if (n_plots++ < kMaxPlots) report::AppendPlot(plot, &plots);
  }
  return plots;
}

// The first two action dimensions of a frame, as points in a square of size 100 that spans the
// range of the data.
std::string ActionPath(const SampleFrame& frame, const KeyStats& range) {
  if (range.min.size() < 2) return "";
  std::string path;
  for (const std::vector<float>& action : frame.actions) {
    std::array<double, 2> at = {};
    for (std::size_t d = 0; d < 2; ++d) {
      const double width = std::max(1e-9, range.max[d] - range.min[d]);
      at[d] = 100.0 * (static_cast<double>(action[d]) - range.min[d]) / width;
    }
    path += fmt::format("{:.1f},{:.1f} ", at[0], at[1]);
  }
  return path;
}

data FrameCards(const DataInspection& inspection) {
  const auto action = std::ranges::find(inspection.keys, "action",
                                        [](const KeyInspection& key) { return key.spec.name; });
  data cards = report::List();
  for (const SampleFrame& frame : inspection.frames) {
    data card;
    card.set("caption",
             fmt::format("{} · episode {}, step {}", frame.key, frame.episode, frame.step));
    card.set("source", "data:image/png;base64," + core::Base64(media::EncodePng(frame.image)));
    card.set("path", ActionPath(frame, action->stats));
    cards.push_back(card);
  }
  return cards;
}

}  // namespace

std::string ToText(const DataInspection& inspection) {
  std::string text =
      fmt::format("{}: {} episodes, {} steps, {}", inspection.name, inspection.lengths.size(),
                  inspection.n_steps(), dp_bench::data::RateText(inspection.fps));
  if (inspection.fps > 0.0) {
    text += fmt::format(" ({:.0f} s)", static_cast<double>(inspection.n_steps()) / inspection.fps);
  }
  text += "\n\n";
  for (const KeyInspection& key : inspection.keys) {
    text += fmt::format("  {:<24} {:<8} {:<16} {}\n", key.spec.name, Name(key.spec.type),
                        ToString(key.spec.shape), Name(key.spec.dtype));
  }
  text += "\n" + ShapeMetaText(inspection);
  text += "\n" + LengthText(inspection.lengths) + "\n";
  text +=
      fmt::format("  {:<24} {:>11} {:>11} {:>11} {:>11}\n", "value", "min", "max", "mean", "std");
  for (const KeyInspection& key : inspection.keys) text += StatsText(key);
  return text + "\n" + ToText(inspection.faults);
}

nlohmann::json ToJson(const DataInspection& inspection) {
  nlohmann::json keys = nlohmann::json::array();
  for (const KeyInspection& key : inspection.keys) {
    keys.push_back({{"name", key.spec.name},
                    {"type", Name(key.spec.type)},
                    {"shape", key.spec.shape},
                    {"dtype", Name(key.spec.dtype)},
                    {"n_frames", key.n_frames},
                    {"stats",
                     {{"min", key.stats.min},
                      {"max", key.stats.max},
                      {"mean", key.stats.mean},
                      {"std", key.stats.std}}}});
  }
  nlohmann::json json = ToJson(inspection.faults);
  json["name"] = inspection.name;
  json["fps"] = inspection.fps > 0.0 ? nlohmann::json(inspection.fps) : nullptr;
  json["n_episodes"] = inspection.lengths.size();
  json["n_steps"] = inspection.n_steps();
  json["episode_lengths"] = inspection.lengths;
  json["keys"] = std::move(keys);
  json["shape_meta"] = ShapeMetaOf(inspection);
  return json;
}

void WriteDataPage(const DataInspection& inspection, const std::filesystem::path& file) {
  data page;
  page.set("title", inspection.name);
  page.set("n_episodes", std::to_string(inspection.lengths.size()));
  page.set("n_steps", std::to_string(inspection.n_steps()));
  page.set("rate", dp_bench::data::RateText(inspection.fps));
  page.set("has_problems", HasProblems(inspection.faults));
  page.set("faults", FindingRows(inspection.faults));
  page.set("n_checks", std::to_string(inspection.faults.size()));
  page.set("keys", KeyRows(inspection));
  page.set("stats", StatsRows(inspection));
  page.set("bars", Bars(inspection.lengths));
  page.set("plots", Plots(inspection));
  page.set("has_frames", !inspection.frames.empty());
  page.set("frames", FrameCards(inspection));
  core::WriteOutput(file, report::RenderPage("data.html", page));
}

}  // namespace dp_bench::inspect
