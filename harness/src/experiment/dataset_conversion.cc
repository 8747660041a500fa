#include "experiment/dataset_conversion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "config/loader.h"
#include "data/replay_dataset_writer.h"
#include "dp_bench/dataset.h"
#include "dp_bench/dataset_writer.h"
#include "dp_bench/error.h"
#include "plugin/catalogue.h"
#include "run/lerobot/feature_map.h"

namespace dp_bench::experiment {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kLeRobotFormat = "lerobot";
constexpr const char* kAction = "action";
constexpr std::size_t kMaxBlockBytes = std::size_t{64} << 20;  // read at a time

// The last part of the path.
fs::path NameOf(const fs::path& source) {
  const fs::path path = fs::absolute(source).lexically_normal();
  return path.has_filename() ? path.filename() : path.parent_path().filename();
}

std::int64_t LengthOf(const Dataset& dataset, std::int64_t episode) {
  const std::span<const std::int64_t> ends = dataset.episode_ends();
  const auto i = static_cast<std::size_t>(episode);
  return ends[i] - (i == 0 ? 0 : ends[i - 1]);
}

// Tells one source from another, so that an output is not continued with other episodes.
std::string Identify(const fs::path& source, const Dataset& dataset) {
  return fmt::format("{} ({} episodes, {} steps)", NameOf(source).string(),
                     dataset.episode_ends().size(), dataset.episode_ends().back());
}

// "version=v2.1", with a value in JSON or a plain text.
void SetParam(const std::string& text, json* params) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(ErrorCode::kUsage, fmt::format("--param {}: expected <key>=<value>", text));
  }
  const std::string value = text.substr(equals + 1);
  const json parsed = json::parse(value, nullptr, /*allow_exceptions=*/false);
  (*params)[text.substr(0, equals)] = parsed.is_discarded() ? json(value) : parsed;
}

// A feature that is written and its keys, with a name per number if they are known.
struct FeatureRequest {
  std::string name;
  std::vector<std::string> keys;
  std::vector<std::string> channels;
};

std::vector<FeatureRequest> FeaturesByDefault(const DatasetSpec& spec,
                                              std::span<const std::string> asked) {
  ShapeMeta shape_meta;
  for (const KeySpec& key : spec.keys) {
    if (key.name != kAction) shape_meta.obs.push_back(key);
  }
  std::vector<FeatureRequest> features;
  for (const run::FeatureBinding& binding : run::NameFeatures(shape_meta, asked)) {
    features.push_back({.name = binding.feature.name, .keys = binding.keys});
  }
  features.push_back({.name = kAction, .keys = {kAction}});
  return features;
}

// The features that the keys were read from.
std::vector<FeatureRequest> FeaturesOfSource(const DatasetSpec& spec, const DatasetLabels& labels) {
  std::vector<FeatureRequest> features;
  for (std::size_t i = 0; i < spec.keys.size(); ++i) {
    const auto key = static_cast<int>(i);
    const std::string name = labels.FeatureName(key);
    auto found = std::ranges::find(features, name, &FeatureRequest::name);
    if (found == features.end()) found = features.insert(found, {.name = name});
    found->keys.push_back(spec.keys[i].name);
    const std::vector<std::string> channels = labels.ChannelNames(key);
    found->channels.insert(found->channels.end(), channels.begin(), channels.end());
  }
  return features;
}

json ToJson(std::span<const FeatureRequest> features) {
  json result = json::object();
  for (const FeatureRequest& feature : features) {
    result[feature.name] = {{"keys", feature.keys}};
    if (!feature.channels.empty()) result[feature.name]["names"] = feature.channels;
  }
  return result;
}

class Conversion {
 public:
  Conversion(const DatasetConversion& request, plugin::PluginCatalogue& catalogue)
      : request_(request) {
    const json params = {{"path", request.source.string()}};
    dataset_ = catalogue.Create<Dataset>(config::DatasetPluginOf(request.source),
                                         Config::FromJson(params.dump(), request.source.string()));
    labels_ = dynamic_cast<const DatasetLabels*>(dataset_.get());
    MakeWriter(catalogue);
    report_.n_before = writer_->n_episodes();
  }

  ConversionReport Run(const std::function<void(const ConversionProgress&)>& progress) {
    const auto n_wanted = std::ssize(dataset_->episode_ends());
    while (writer_->n_episodes() < n_wanted) {
      if (!CopyEpisode(writer_->n_episodes())) {
        report_.is_interrupted = true;
        break;
      }
      progress({.n_episodes = writer_->n_episodes(), .n_wanted = n_wanted, .n_steps = n_copied_});
    }
    if (!report_.is_interrupted) writer_->Finish();
    report_.n_episodes = writer_->n_episodes();
    report_.n_steps = dataset_->episode_ends().back();
    return report_;
  }

 private:
  void MakeWriter(plugin::PluginCatalogue& catalogue) {
    const std::string source = Identify(request_.source, *dataset_);
    const bool is_lerobot = request_.format == kLeRobotFormat;
    if (!request_.map.empty() && !is_lerobot) {
      throw Error(ErrorCode::kUsage, "--map is only for --format lerobot");
    }
    if (request_.format == kZarrFormat) {
      if (!request_.params.empty()) {
        throw Error(ErrorCode::kUsage, "--format zarr has no --param");
      }
      writer_ =
          std::make_unique<data::ReplayDatasetWriter>(request_.output, source, dataset_->spec());
      return;
    }
    json params = {{"path", request_.output.string()}, {"source", source}};
    if (is_lerobot) params["features"] = ToJson(Features());
    for (const std::string& param : request_.params) SetParam(param, &params);
    writer_ = catalogue.Create<DatasetWriter>(
        request_.format, Config::FromJson(params.dump(), "--param"), dataset_->spec());
  }

  std::vector<FeatureRequest> Features() {
    std::vector<FeatureRequest> features = labels_ != nullptr && request_.map.empty()
                                               ? FeaturesOfSource(dataset_->spec(), *labels_)
                                               : FeaturesByDefault(dataset_->spec(), request_.map);
    for (const FeatureRequest& feature : features) {
      report_.features.push_back(
          fmt::format("{}: {}", feature.name, fmt::join(feature.keys, ", ")));
    }
    return features;
  }

  std::string TaskOf(std::int64_t episode) const {
    const std::string task = labels_ != nullptr ? labels_->Task(episode) : "";
    if (!task.empty()) return task;
    return request_.task.empty() ? NameOf(request_.source).stem().string() : request_.task;
  }

  // False if it was stopped.
  bool CopyEpisode(std::int64_t episode) {
    const std::int64_t n_steps = LengthOf(*dataset_, episode);
    const std::int64_t begin =
        dataset_->episode_ends()[static_cast<std::size_t>(episode)] - n_steps;
    writer_->BeginEpisode({.n_steps = n_steps, .task = TaskOf(episode)});
    const std::int64_t block = StepsPerBlock();
    for (std::int64_t at = 0; at < n_steps; at += block) {
      if (request_.stop != nullptr && *request_.stop) return false;
      CopySteps(begin + at, begin + std::min(at + block, n_steps));
    }
    return true;
  }

  std::int64_t StepsPerBlock() const {
    std::size_t bytes = 0;
    for (const KeySpec& key : dataset_->spec().keys) bytes += key.ByteSize();
    return static_cast<std::int64_t>(std::max<std::size_t>(kMaxBlockBytes / bytes, 1));
  }

  void CopySteps(std::int64_t begin, std::int64_t end) {
    const std::vector<KeySpec>& keys = dataset_->spec().keys;
    const auto n = static_cast<std::size_t>(end - begin);
    blocks_.resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      blocks_[i].resize(n * keys[i].ByteSize());
      dataset_->Read(static_cast<int>(i), begin, end, blocks_[i]);
    }
    std::vector<std::span<const std::byte>> values(keys.size());
    for (std::size_t step = 0; step < n; ++step) {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const std::size_t bytes = keys[i].ByteSize();
        values[i] = std::span(blocks_[i]).subspan(step * bytes, bytes);
      }
      writer_->Append(values);
    }
    n_copied_ += end - begin;
  }

  const DatasetConversion& request_;
  std::unique_ptr<Dataset> dataset_;
  const DatasetLabels* labels_ = nullptr;  // null if the format has none
  std::unique_ptr<DatasetWriter> writer_;
  std::vector<std::vector<std::byte>> blocks_;  // per key
  std::int64_t n_copied_ = 0;                   // steps
  ConversionReport report_;
};

}  // namespace

ConversionReport ConvertDataset(const DatasetConversion& request,
                                plugin::PluginCatalogue& catalogue,
                                const std::function<void(const ConversionProgress&)>& progress) {
  Conversion conversion(request, catalogue);
  return conversion.Run(progress);
}

}  // namespace dp_bench::experiment
