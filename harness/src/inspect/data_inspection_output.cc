// The output forms of a DataInspection: JSON, from which text and page are made.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/output_file.h"
#include "data/key_check.h"
#include "inspect/data_inspection.h"
#include "media/png.h"
#include "report/line_plot.h"
#include "report/render.h"

namespace dp_bench::inspect {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kBins = 20;
constexpr std::size_t kMaxPlots = 24;

// The histogram of the lengths, each bin with a bar in percent of the largest and in characters.
Json LengthBins(const std::vector<std::int64_t>& lengths) {
  const auto [low, high] = std::ranges::minmax(lengths);
  const std::int64_t width = std::max<std::int64_t>(1, (high - low + kBins) / kBins);
  std::vector<std::int64_t> counts(static_cast<std::size_t>((high - low) / width + 1));
  for (const std::int64_t length : lengths) {
    ++counts[static_cast<std::size_t>((length - low) / width)];
  }
  const std::int64_t most = std::ranges::max(counts);
  Json bins = Json::array();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::int64_t begin = low + static_cast<std::int64_t>(i) * width;
    const auto n_marks = static_cast<std::size_t>((40 * counts[i] + most - 1) / most);
    bins.push_back({{"begin", begin},
                    {"end", begin + width - 1},
                    {"count", counts[i]},
                    {"width", 100 * counts[i] / most},
                    {"marks", std::string(n_marks, '#')}});
  }
  return bins;
}

// The shape_meta of a config that reads every key.
Json ShapeMetaOf(const DataInspection& inspection) {
  Json meta = {{"obs", Json::object()}};
  for (const KeyInspection& key : inspection.keys) {
    if (key.spec.name == "action") {
      meta["action"] = {{"shape", key.spec.shape}};
      continue;
    }
    Json& entry = meta["obs"][key.spec.name];
    entry = {{"shape", key.spec.shape}, {"type", Name(key.spec.type)}};
    if (key.spec.type == KeyType::kDepth) entry["dtype"] = Name(key.spec.dtype);
  }
  return meta;
}

// What the text and the page show beside the numbers of ToJson.
Json ViewOf(const DataInspection& inspection) {
  Json view = ToJson(inspection);
  view.update(TextView(inspection.faults));
  view["rate"] = data::RateText(inspection.fps);
  view["duration"] =
      inspection.fps > 0.0
          ? fmt::format(" ({:.0f} s)", static_cast<double>(inspection.n_steps()) / inspection.fps)
          : "";
  view["n_checks"] = inspection.faults.size();
  view["bars"] = LengthBins(inspection.lengths);
  view["values"] = Json::array();
  for (std::size_t k = 0; k < inspection.keys.size(); ++k) {
    const KeyInspection& key = inspection.keys[k];
    view["keys"][k]["shape"] = ToString(key.spec.shape);
    for (std::size_t d = 0; d < key.stats.min.size(); ++d) {
      view["values"].push_back({{"value", fmt::format("{}[{}]", key.spec.name, d)},
                                {"min", key.stats.min[d]},
                                {"max", key.stats.max[d]},
                                {"mean", key.stats.mean[d]},
                                {"std", key.stats.std[d]}});
    }
  }
  const Json& meta = view["shape_meta"];
  std::vector<std::string> keys;
  for (const auto& [name, entry] : meta["obs"].items()) {
    keys.push_back(fmt::format("    {}: {}", Json(name).dump(), entry.dump()));
  }
  view["obs_lines"] = fmt::format("{}", fmt::join(keys, ",\n"));
  view["action_entry"] = meta.value("action", Json::object()).dump();
  return view;
}

Json Plots(const DataInspection& inspection) {
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
  Json plots = Json::array();
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

Json Frames(const DataInspection& inspection) {
  const auto action = std::ranges::find(inspection.keys, "action",
                                        [](const KeyInspection& key) { return key.spec.name; });
  Json frames = Json::array();
  for (const SampleFrame& frame : inspection.frames) {
    frames.push_back(
        {{"caption", fmt::format("{} · episode {}, step {}", frame.key, frame.episode, frame.step)},
         {"source", report::DataUrl("image/png", media::EncodePng(frame.image))},
         {"path", ActionPath(frame, action->stats)}});
  }
  return frames;
}

}  // namespace

nlohmann::json ToJson(const DataInspection& inspection) {
  Json json = ToJson(inspection.faults);
  json["name"] = inspection.name;
  json["fps"] = inspection.fps > 0.0 ? Json(inspection.fps) : nullptr;
  json["n_episodes"] = inspection.lengths.size();
  json["n_steps"] = inspection.n_steps();
  json["episode_lengths"] = inspection.lengths;
  json["shape_meta"] = ShapeMetaOf(inspection);
  json["keys"] = Json::array();
  for (const KeyInspection& key : inspection.keys) {
    json["keys"].push_back({{"name", key.spec.name},
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
  return json;
}

std::string ToText(const DataInspection& inspection) {
  return report::Render("data.txt", ViewOf(inspection));
}

void WriteDataPage(const DataInspection& inspection, const std::filesystem::path& file) {
  Json page = ViewOf(inspection);
  page["plots"] = Plots(inspection);
  page["frames"] = Frames(inspection);
  core::WriteOutput(file, report::Render("data.html", page));
}

}  // namespace dp_bench::inspect
