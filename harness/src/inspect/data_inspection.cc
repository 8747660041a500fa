#include "inspect/data_inspection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "core/errors.h"
#include "core/output_file.h"
#include "core/visit_dtype.h"
#include "data/key_check.h"
#include "data/stats.h"
#include "diagnose/data_checks.h"
#include "media/png.h"
#include "plugin/env_message.h"
#include "report/render.h"

namespace dp_bench::inspect {
namespace {

using Json = nlohmann::json;

constexpr int kFrames = 6;           // shown per camera
constexpr int kCurves = 3;           // episodes whose values are shown
constexpr int kActionsOfFrame = 16;  // shown on a frame
constexpr int kMaxWidth = 320;       // of a frame [px]; larger ones are subsampled
constexpr std::size_t kMaxPlots = 24;

// Element i of an image.
double Element(const std::uint8_t* bytes, DType dtype, std::size_t i) {
  return core::VisitDType(dtype, [&](auto value) {
    std::memcpy(&value, bytes + i * sizeof(value), sizeof(value));
    return static_cast<double>(value);
  });
}

// An image of at most kMaxWidth columns from bytes [H, W, C].
RgbImage DrawFrame(const KeySpec& key, const std::vector<std::uint8_t>& bytes) {
  const std::int64_t height = key.shape[1];
  const std::int64_t width = key.shape[2];
  const auto depth_at = [&](std::int64_t pixel) {
    const double value = Element(bytes.data(), key.dtype, static_cast<std::size_t>(pixel));
    return std::isfinite(value) ? value : 0.0;
  };
  double far = 0.0;
  if (key.type == KeyType::kDepth) {
    for (std::int64_t i = 0; i < height * width; ++i) far = std::max(far, depth_at(i));
  }
  const std::int64_t stride = std::max<std::int64_t>(1, (width + kMaxWidth - 1) / kMaxWidth);
  RgbImage image(static_cast<int>(width / stride), static_cast<int>(height / stride));
  for (int row = 0; row < image.height; ++row) {
    for (int column = 0; column < image.width; ++column) {
      const std::int64_t pixel = row * stride * width + column * stride;
      std::uint8_t* out = image.pixels.data() + 3 * (row * image.width + column);
      if (key.type == KeyType::kRgb) {
        std::copy_n(bytes.data() + 3 * pixel, 3, out);
        continue;
      }
      const double depth = depth_at(pixel);
      const double grey = depth > 0.0 && far > 0.0 ? 255.0 * (1.0 - 0.85 * depth / far) : 0.0;
      std::fill_n(out, 3, static_cast<std::uint8_t>(grey));
    }
  }
  return image;
}

// Running minimum, maximum, mean and deviation of one channel.
class Accumulator {
 public:
  void Add(double value) {
    ++n_;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
    sum_ += value;
    squares_ += value * value;
  }

  void AppendTo(KeyStats* stats) const {
    const auto n = static_cast<double>(std::max<std::int64_t>(n_, 1));
    const double mean = sum_ / n;
    stats->min.push_back(n_ > 0 ? low_ : 0.0);
    stats->max.push_back(n_ > 0 ? high_ : 0.0);
    stats->mean.push_back(mean);
    stats->std.push_back(std::sqrt(std::max(0.0, squares_ / n - mean * mean)));
  }

 private:
  std::int64_t n_ = 0;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
  double sum_ = 0.0;
  double squares_ = 0.0;
};

// Statistics of a sample of images. Depth leaves out pixels without a measurement.
KeyInspection InspectImages(const Dataset& dataset, int index, int n_images) {
  const KeySpec& key = dataset.spec().keys[static_cast<std::size_t>(index)];
  KeyInspection inspection = {.spec = key, .stats = {}};
  const std::size_t n_channels = key.type == KeyType::kRgb ? 3 : 1;
  std::vector<Accumulator> channels(n_channels);
  for (const std::int64_t step : diagnose::Spread(dataset.episode_ends().back(), n_images)) {
    const std::vector<std::uint8_t> bytes = diagnose::ReadImage(dataset, index, step);
    const std::size_t n_elements = bytes.size() / SizeOf(key.dtype);
    for (std::size_t i = 0; i < n_elements; ++i) {
      const double value = Element(bytes.data(), key.dtype, i);
      if (key.type == KeyType::kDepth && !(value > 0.0)) continue;
      channels[i % n_channels].Add(value);
    }
    ++inspection.n_frames;
  }
  for (const Accumulator& channel : channels) channel.AppendTo(&inspection.stats);
  inspection.stats.count = inspection.n_frames;
  return inspection;
}

KeyInspection InspectKey(const Dataset& dataset, int index, bool is_finite, int n_images) {
  const KeySpec& key = dataset.spec().keys[static_cast<std::size_t>(index)];
  if (key.is_image()) return InspectImages(dataset, index, n_images);
  KeyInspection inspection = {.spec = key, .stats = {}, .n_frames = dataset.episode_ends().back()};
  if (is_finite) inspection.stats = data::ComputeStats(dataset, index);
  return inspection;
}

diagnose::Findings CheckAlone(const Dataset& dataset, const diagnose::Demonstrations& data) {
  ShapeMeta images;
  for (const KeySpec& key : dataset.spec().keys) {
    if (key.is_image()) images.obs.push_back(key);
  }
  diagnose::Findings findings = diagnose::CheckData(data, Horizons{});
  if (!findings.front().is_problem())
    findings.push_back(diagnose::CheckRecordedRanges(dataset, data));
  findings.push_back(diagnose::CheckImages(dataset, images));
  return findings;
}

std::vector<SampleFrame> Frames(const Dataset& dataset, const diagnose::Demonstrations& data) {
  std::vector<SampleFrame> frames;
  const std::vector<KeySpec>& keys = dataset.spec().keys;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    if (!keys[k].is_image()) continue;
    for (const std::int64_t step : diagnose::Spread(data.n_steps(), kFrames)) {
      const std::int64_t episode = data.EpisodeOf(step);
      SampleFrame frame = {
          .key = keys[k].name, .episode = episode, .step = step - data.EpisodeBegin(episode)};
      frame.image = DrawFrame(keys[k], diagnose::ReadImage(dataset, static_cast<int>(k), step));
      const std::int64_t end = std::min(data.EpisodeEnd(episode), step + kActionsOfFrame);
      for (std::int64_t t = step; t < end; ++t) {
        std::vector<float>& action = frame.actions.emplace_back();
        for (std::int64_t d = 0; d < data.action().dim; ++d) {
          action.push_back(data.action().at(t, d));
        }
      }
      frames.push_back(std::move(frame));
    }
  }
  return frames;
}

// The values of the first dimensions.
std::vector<report::LinePlot> Plots(const diagnose::Demonstrations& data) {
  std::vector<report::LinePlot> plots;
  for (const diagnose::Signal& signal : data.signals) {
    for (std::int64_t d = 0; d < signal.dim && plots.size() < kMaxPlots; ++d) {
      report::LinePlot& plot = plots.emplace_back();
      plot.title = fmt::format("{}[{}]", signal.name, d);
      plot.x_label = "step";
      for (const std::int64_t episode : diagnose::Spread(data.n_episodes(), kCurves)) {
        report::PlotSeries& series = plot.series.emplace_back();
        series.label = fmt::format("episode {}", episode);
        const std::int64_t begin = data.EpisodeBegin(episode);
        for (std::int64_t t = begin; t < data.EpisodeEnd(episode); ++t) {
          series.points.push_back(
              {static_cast<double>(t - begin), static_cast<double>(signal.at(t, d))});
        }
      }
    }
  }
  return plots;
}

constexpr std::int64_t kBins = 20;

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

// As the section shape_meta of a task config.
Json ShapeMetaJson(std::span<const KeySpec> obs, const Shape& action) {
  Json meta = {{"obs", Json::object()}, {"action", {{"shape", action}}}};
  for (const KeySpec& key : obs) {
    Json& entry = meta["obs"][key.name];
    entry = {{"shape", key.shape}, {"type", Name(key.type)}};
    if (key.type == KeyType::kDepth) entry["dtype"] = Name(key.dtype);
  }
  return meta;
}

// The shape_meta of a config that reads every key.
Json ShapeMetaOf(const DataInspection& inspection) {
  std::vector<KeySpec> obs;
  Shape action;
  for (const KeyInspection& key : inspection.keys) {
    if (key.spec.name == "action") {
      action = key.spec.shape;
    } else {
      obs.push_back(key.spec);
    }
  }
  return ShapeMetaJson(obs, action);
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

const char* NameOf(Aggregate aggregate) {
  constexpr std::array kNames = {"max", "mean", "last"};
  return kNames.at(static_cast<std::size_t>(aggregate));
}

std::vector<std::string> AbilityNames(const EnvAbilities& abilities) {
  std::vector<std::string> names;
  if (abilities.has_expert) names.emplace_back("expert");
  if (abilities.state_size > 0) names.push_back(fmt::format("state ({})", abilities.state_size));
  if (abilities.has_pointer_control) names.emplace_back("pointer control");
  if (!abilities.cameras.empty()) {
    names.push_back(fmt::format("cameras ({})", fmt::join(abilities.cameras, ", ")));
  }
  if (abilities.n_marks > 0) names.push_back(fmt::format("marks ({})", abilities.n_marks));
  return names;
}

Json KeyRow(const KeySpec& key, std::string_view type) {
  return {{"key", key.name},
          {"type", type},
          {"shape", ToString(key.shape)},
          {"dtype", Name(key.dtype)}};
}

}  // namespace

std::int64_t DataInspection::n_steps() const {
  std::int64_t n = 0;
  for (const std::int64_t length : lengths) n += length;
  return n;
}

DataInspection InspectData(const Dataset& dataset, const std::string& name, int n_images) {
  if (dataset.episode_ends().empty()) throw DataError("'{}' holds no episode", name);
  dataset.KeyIndex("action");
  std::vector<std::string> names;
  for (const KeySpec& key : dataset.spec().keys) names.push_back(key.name);
  const diagnose::Demonstrations data = diagnose::ReadDemonstrations(dataset, names);

  DataInspection inspection = {.name = name, .fps = dataset.spec().fps};
  inspection.faults = CheckAlone(dataset, data);
  const bool is_finite = !inspection.faults.front().is_problem();
  for (std::int64_t i = 0; i < data.n_episodes(); ++i) {
    inspection.lengths.push_back(data.EpisodeEnd(i) - data.EpisodeBegin(i));
  }
  for (std::size_t k = 0; k < names.size(); ++k) {
    inspection.keys.push_back(InspectKey(dataset, static_cast<int>(k), is_finite, n_images));
  }
  inspection.frames = Frames(dataset, data);
  inspection.plots = Plots(data);
  return inspection;
}

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
  page["title"] = inspection.name;
  page["plots"] = Json::array();
  for (const report::LinePlot& plot : inspection.plots) report::AppendPlot(plot, &page["plots"]);
  page["frames"] = Frames(inspection);
  core::WriteOutput(file, report::Render("data.html", page));
}

std::string ToText(const EnvInspection& inspection) {
  const EnvSpec& spec = inspection.spec;
  Json view = ToJson(inspection);
  view["keys"] = Json::array();
  for (const KeySpec& key : spec.shape_meta.obs)
    view["keys"].push_back(KeyRow(key, Name(key.type)));
  view["keys"].push_back(KeyRow(spec.shape_meta.action, "action"));
  view["shape_meta"] = view["shape_meta"].dump();
  view["facts"] = {{{"name", "action bounds"},
                    {"text", fmt::format("{::g} to {::g}", spec.action_low, spec.action_high)}}};
  const auto add = [&](const char* name, const std::vector<std::string>& texts) {
    if (texts.empty()) return;
    view["facts"].push_back({{"name", name}, {"text", fmt::format("{}", fmt::join(texts, ", "))}});
  };
  std::vector<std::string> metrics;
  for (const MetricSpec& metric : spec.metrics) {
    metrics.push_back(fmt::format("{} ({})", metric.name, NameOf(metric.aggregate)));
  }
  std::vector<std::string> perturbations;
  for (const PerturbationSpec& kind : spec.perturbations) {
    perturbations.push_back(fmt::format("{} ({:g} to {:g})", kind.name, kind.low, kind.high));
  }
  add("metrics", metrics);
  add("world", {spec.moves_without_actions ? "moves without actions" : "waits for actions"});
  add("tasks", spec.tasks);
  add("obs", spec.obs_modes);
  add("perturbations", perturbations);
  add("offers", AbilityNames(spec.abilities));
  return report::Render("env.txt", view);
}

nlohmann::json ToJson(const EnvInspection& inspection) {
  const ShapeMeta& shape_meta = inspection.spec.shape_meta;
  Json json = inspection.spec;
  json["name"] = inspection.name;
  json["plugin"] = inspection.plugin;
  json["shape_meta"] = ShapeMetaJson(shape_meta.obs, shape_meta.action.shape);
  for (Json& metric : json["metrics"]) {
    metric["aggregate"] = NameOf(metric["aggregate"].get<Aggregate>());
  }
  for (Json& kind : json["perturbations"]) {  // what the harness does with it is its own matter
    kind.erase("strength");
    kind.erase("is_visual");
  }
  return json;
}

}  // namespace dp_bench::inspect
