// See data_inspection.h.
#include "inspect/data_inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "data/stats.h"
#include "diagnose/data_checks.h"
#include "diagnose/demonstrations.h"
#include "dp_bench/error.h"

namespace dp_bench::inspect {
namespace {

// An image of at most `max_width` columns from bytes [H, W, C].
class FrameDrawing {
 public:
  FrameDrawing(const KeySpec& key, int max_width) : key_(key) {
    stride_ = std::max<std::int64_t>(1, (width() + max_width - 1) / max_width);
  }

  RgbImage Draw(const std::vector<std::uint8_t>& bytes) const {
    RgbImage image(static_cast<int>(width() / stride_), static_cast<int>(height() / stride_));
    const double far = Farthest(bytes);
    for (int row = 0; row < image.height; ++row) {
      for (int column = 0; column < image.width; ++column) {
        const std::int64_t pixel = row * stride_ * width() + column * stride_;
        std::uint8_t* out = image.pixels.data() + 3 * (row * image.width + column);
        DrawPixel(bytes, pixel, far, out);
      }
    }
    return image;
  }

 private:
  std::int64_t height() const { return key_.shape[1]; }
  std::int64_t width() const { return key_.shape[2]; }

  double Depth(const std::vector<std::uint8_t>& bytes, std::int64_t pixel) const {
    const auto at = static_cast<std::size_t>(pixel);
    if (key_.dtype == DType::kUInt16) {
      std::uint16_t value = 0;
      std::memcpy(&value, bytes.data() + 2 * at, sizeof(value));
      return value;
    }
    float value = 0.0F;
    std::memcpy(&value, bytes.data() + 4 * at, sizeof(value));
    return std::isfinite(value) ? value : 0.0;
  }

  double Farthest(const std::vector<std::uint8_t>& bytes) const {
    double far = 0.0;
    if (key_.type != KeyType::kDepth) return far;
    for (std::int64_t i = 0; i < height() * width(); ++i) far = std::max(far, Depth(bytes, i));
    return far;
  }

  void DrawPixel(const std::vector<std::uint8_t>& bytes, std::int64_t pixel, double far,
                 std::uint8_t* out) const {
    if (key_.type == KeyType::kRgb) {
      std::copy_n(bytes.data() + 3 * pixel, 3, out);
      return;
    }
    const double depth = Depth(bytes, pixel);
    const double grey = depth > 0.0 && far > 0.0 ? 255.0 * (1.0 - 0.85 * depth / far) : 0.0;
    std::fill_n(out, 3, static_cast<std::uint8_t>(grey));
  }

  const KeySpec& key_;
  std::int64_t stride_ = 1;
};

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

double Element(const std::uint8_t* bytes, DType dtype, std::size_t i) {
  if (dtype == DType::kUInt8) return bytes[i];
  if (dtype == DType::kUInt16) {
    std::uint16_t value = 0;
    std::memcpy(&value, bytes + 2 * i, sizeof(value));
    return value;
  }
  float value = 0.0F;
  std::memcpy(&value, bytes + 4 * i, sizeof(value));
  return value;
}

// Statistics of a sample of images. Depth leaves out pixels without a measurement.
KeyInspection InspectPictures(const Dataset& dataset, int index, int n_frames) {
  const KeySpec& key = dataset.spec().keys[static_cast<std::size_t>(index)];
  KeyInspection inspection = {.spec = key, .stats = {}};
  const std::size_t n_channels = key.type == KeyType::kRgb ? 3 : 1;
  std::vector<Accumulator> channels(n_channels);
  for (const std::int64_t step : diagnose::Spread(dataset.episode_ends().back(), n_frames)) {
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

KeyInspection InspectKey(const Dataset& dataset, int index, bool is_finite,
                         const DataInspectionOptions& options) {
  const KeySpec& key = dataset.spec().keys[static_cast<std::size_t>(index)];
  if (key.type != KeyType::kLowDim) return InspectPictures(dataset, index, options.n_statistics);
  KeyInspection inspection = {.spec = key, .stats = {}, .n_frames = dataset.episode_ends().back()};
  if (is_finite) inspection.stats = data::ComputeStats(dataset, index);
  return inspection;
}

diagnose::Findings CheckAlone(const Dataset& dataset, const diagnose::Demonstrations& data) {
  ShapeMeta pictures;
  for (const KeySpec& key : dataset.spec().keys) {
    if (key.type != KeyType::kLowDim) pictures.obs.push_back(key);
  }
  diagnose::Findings findings = diagnose::CheckData(data, Horizons{});
  if (!findings.front().is_problem())
    findings.push_back(diagnose::CheckRecordedRanges(dataset, data));
  findings.push_back(diagnose::CheckImages(dataset, pictures));
  return findings;
}

std::vector<SampleFrame> Frames(const Dataset& dataset, const diagnose::Demonstrations& data,
                                const DataInspectionOptions& options) {
  std::vector<SampleFrame> frames;
  const std::vector<KeySpec>& keys = dataset.spec().keys;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    if (keys[k].type == KeyType::kLowDim) continue;
    const FrameDrawing drawing(keys[k], options.max_width);
    for (const std::int64_t step : diagnose::Spread(data.n_steps(), options.n_frames)) {
      const std::int64_t episode = data.EpisodeOf(step);
      SampleFrame frame = {
          .key = keys[k].name, .episode = episode, .step = step - data.EpisodeBegin(episode)};
      frame.image = drawing.Draw(diagnose::ReadImage(dataset, static_cast<int>(k), step));
      const std::int64_t end = std::min(data.EpisodeEnd(episode), step + options.n_actions);
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

std::vector<ValueCurve> Curves(const diagnose::Demonstrations& data, int n_curves) {
  std::vector<ValueCurve> curves;
  for (const diagnose::Signal& signal : data.signals) {
    for (std::int64_t d = 0; d < signal.dim; ++d) {
      for (const std::int64_t episode : diagnose::Spread(data.n_episodes(), n_curves)) {
        ValueCurve curve = {.key = signal.name, .dim = d, .episode = episode, .values = {}};
        for (std::int64_t t = data.EpisodeBegin(episode); t < data.EpisodeEnd(episode); ++t) {
          curve.values.push_back(signal.at(t, d));
        }
        curves.push_back(std::move(curve));
      }
    }
  }
  return curves;
}

}  // namespace

std::int64_t DataInspection::n_steps() const {
  std::int64_t n = 0;
  for (const std::int64_t length : lengths) n += length;
  return n;
}

DataInspection InspectData(const Dataset& dataset, const std::string& name,
                           const DataInspectionOptions& options) {
  if (dataset.episode_ends().empty()) {
    throw Error(ErrorCode::kData, fmt::format("'{}' holds no episode", name));
  }
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
    inspection.keys.push_back(InspectKey(dataset, static_cast<int>(k), is_finite, options));
  }
  inspection.frames = Frames(dataset, data, options);
  inspection.curves = Curves(data, options.n_curves);
  return inspection;
}

}  // namespace dp_bench::inspect
