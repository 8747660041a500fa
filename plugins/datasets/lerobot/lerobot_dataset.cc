#include "lerobot_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "data/lerobot/statistics.h"
#include "data/reader/chunk_grid.h"
#include "dp_bench/config_keys.h"
#include "dp_bench/error.h"

namespace dp_bench::lerobot {
namespace {

using reader::KeyConfig;
using reader::KeyConfigs;

// A key, and what it takes of its feature.
struct MappedKey {
  KeySpec spec;
  std::vector<std::size_t> channels = {};  // of numbers, in this order; empty for all
  std::optional<DepthScale> depth = {};    // of a depth key
};

std::string KeyName(std::string_view feature) {
  for (const std::string_view begin : {"observation.images.", "observation."}) {
    if (feature.starts_with(begin)) return std::string(feature.substr(begin.size()));
  }
  return std::string(feature);
}

KeyConfigs KeysOfFeatures(const Metadata& metadata) {
  KeyConfigs keys;
  std::vector<std::string> left_out;
  for (const auto& [name, feature] : metadata.features) {
    if (feature.kind == Feature::Kind::kOther) left_out.push_back(name);
    const bool is_empty = !feature.is_camera() && NumElements(feature.shape) == 0;
    if (feature.kind == Feature::Kind::kOther || is_empty || IsOwnColumn(name) ||
        name.starts_with("next.")) {
      continue;
    }
    const auto [other, is_new] = keys.emplace(KeyName(name), KeyConfig{.source = name});
    if (!is_new) {
      throw Error(ErrorCode::kData,
                  fmt::format("{}: the features '{}' and '{}' would have the same key '{}'; name "
                              "them in dataset.params.keys",
                              metadata.root.string(), other->second.source, name, other->first));
    }
  }
  if (!keys.contains("action")) {
    throw Error(ErrorCode::kData,
                fmt::format("{} has no feature 'action'; name the features in dataset.params.keys, "
                            "such as {{\"action\": {{\"feature\": \"actions\"}}}}",
                            metadata.root.string()));
  }
  if (!left_out.empty()) {
    reader::WarnUser(fmt::format("{}: left out, because they hold neither numbers nor images: {}",
                                 metadata.root.string(), reader::ListFirst(left_out)));
  }
  return keys;
}

// An entry of the param `keys`, and of the file in which dp_bench notes what it wrote.
KeyConfig ReadFeatureKey(const Config& key) {
  KeyConfig config = reader::ReadKeyConfig(
      key, "feature",
      "the feature, such as observation.state; none for that of the key without a map");
  const ConfigKeys keys(key);
  keys("names", &config.names,
       "channels to take, by the names in meta/info.json and in this order; numbers only, none for "
       "all");
  keys("shape", &config.shape, "shape of the key, such as [9, 2]; none for a list of the numbers");
  keys("mm_per_level", &config.mm_per_level, 1e-3, 1e4,
       "mm per level of depth that is stored in images with 8 bits, as in recordings of Kuavo "
       "robots; required for them");
  return config;
}

KeyConfigs DefaultKeys(const Metadata& metadata) {
  const std::optional<Config> sources = ReadKeySources(metadata.root);
  if (!sources) return KeysOfFeatures(metadata);
  KeyConfigs keys;
  for (const std::string& key : sources->Keys()) {
    keys[key] = ReadFeatureKey(sources->Sub(key));
  }
  sources->RejectUnread();
  return keys;
}

// The keys of a dataset: those `asked` for, or all. One that is asked for without a feature has
// the one that it has among all. Throws Error{kConfig} if there is none, Error{kData} if two
// features would have the same key, or if there is no action.
KeyConfigs ChooseKeys(const Metadata& metadata, const KeyConfigs& asked) {
  std::optional<KeyConfigs> all;
  const auto find_all = [&]() -> const KeyConfigs& {
    if (!all) all = DefaultKeys(metadata);
    return *all;
  };
  return reader::CompleteKeys(asked, find_all, metadata.root.string(), "feature");
}

// The feature of a key. Throws Error{kConfig} if it does not exist or holds texts.
const Feature& FindFeature(const Metadata& metadata, const std::string& key,
                           const std::string& feature) {
  const auto found = metadata.features.find(feature);
  if (found == metadata.features.end()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : metadata.features) names.push_back(name);
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset key '{}': {} has no feature '{}'; its features are: {}", key,
                            metadata.root.string(), feature, fmt::join(names, ", ")));
  }
  if (found->second.kind == Feature::Kind::kOther) {
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset key '{}': the feature '{}' holds neither numbers nor "
                            "images",
                            key, feature));
  }
  return found->second;
}

// Throw Error{kConfig} naming the key and the feature if they do not fit.
MappedKey MapNumbers(const std::string& name, const Feature& feature, const KeyConfig& config) {
  const auto n = static_cast<std::int64_t>(NumElements(feature.shape));
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset key '{}': the feature '{}' has shape {}; {}", name,
                            feature.name, ToString(feature.shape), what));
  };
  if (n == 0) refuse("it has no numbers");
  if (config.type.value_or(KeyType::kLowDim) != KeyType::kLowDim || config.mm_per_level) {
    refuse("type and mm_per_level are for images");
  }

  MappedKey key{.spec = {.name = name, .shape = feature.shape}};
  std::vector<std::size_t>& channels = key.channels;
  KeySpec& spec = key.spec;
  if (!config.names.empty()) {
    if (config.is_sliced()) refuse("give names, or begin and end");
    for (const std::string& channel : config.names) {
      const auto place = std::ranges::find(feature.channels, channel);
      if (place == feature.channels.end()) {
        refuse(fmt::format("it has no channel '{}'; its channels are: {}", channel,
                           feature.channels.empty()
                               ? "not named"
                               : fmt::format("{}", fmt::join(feature.channels, ", "))));
      }
      if (std::ranges::count(feature.channels, channel) > 1) {
        refuse(fmt::format("several of its channels are named '{}'; give begin and end", channel));
      }
      channels.push_back(static_cast<std::size_t>(place - feature.channels.begin()));
    }
  } else if (config.is_sliced()) {
    const auto [begin, end] = reader::SliceOf(config, n, refuse);
    channels.resize(static_cast<std::size_t>(end - begin));
    std::iota(channels.begin(), channels.end(), static_cast<std::size_t>(begin));
  }
  if (!channels.empty()) {
    spec.shape = {static_cast<std::int64_t>(channels.size())};
  }
  if (!config.shape.empty()) {
    const bool is_positive = std::ranges::all_of(config.shape, [](auto size) { return size > 0; });
    if (!is_positive || config.shape.size() > reader::kMaxAxes ||
        NumElements(config.shape) != NumElements(spec.shape)) {
      refuse(fmt::format("its {} numbers do not have the shape {}", NumElements(spec.shape),
                         ToString(config.shape)));
    }
    spec.shape = config.shape;
  }
  if (name == "action" && spec.shape.size() != 1) refuse("the action is a list of numbers");
  return key;
}

MappedKey MapCamera(const std::string& name, const Feature& feature, const KeyConfig& config) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset key '{}': the feature '{}' {}", name, feature.name, what));
  };
  if (name == "action") refuse("holds images; the action is a list of numbers");
  if (!config.names.empty() || config.is_sliced() || !config.shape.empty()) {
    refuse("holds images; names, begin, end and shape are for numbers");
  }
  const KeyType type = config.type.value_or(feature.is_depth ? KeyType::kDepth : KeyType::kRgb);
  if (type == KeyType::kLowDim) refuse("holds images; its type is rgb or depth");
  std::optional<DepthScale> depth;
  if (type == KeyType::kRgb) {
    const bool may_be_depth =
        feature.is_depth || (!config.type && feature.name.find("depth") != std::string::npos);
    if (feature.n_channels == 1 && may_be_depth) {
      refuse("has one channel; expected \"type\": \"depth\" (or \"rgb\" for grey images)");
    }
    if (config.mm_per_level) refuse("is read as colours; mm_per_level is for depth");
  } else if (feature.depth_code) {
    if (config.mm_per_level) refuse("has its own scale in meta/info.json; leave out mm_per_level");
    depth = DepthScale::OfCodes(*feature.depth_code);
  } else if (config.mm_per_level) {
    depth = DepthScale::OfLevels(*config.mm_per_level);
  } else if (feature.kind == Feature::Kind::kVideo) {
    refuse("is a video without a scale in meta/info.json; give mm_per_level");
  } else {
    depth = DepthScale::OfUnit(feature.depth_unit);
  }

  const bool is_rgb = type == KeyType::kRgb;
  return {.spec = {.name = name,
                   .type = type,
                   .shape = {is_rgb ? 3 : 1, feature.height, feature.width},
                   .dtype = is_rgb ? DType::kUInt8 : DType::kUInt16},
          .depth = std::move(depth)};
}

constexpr double kMinToleranceS = 1e-9;

// A file of numbers is decoded in what the limit leaves, but at least in this much.
constexpr double kMinScratchBytes = 16 << 20;

// Open files of one camera may take at most this part of the limit, and there are at most this
// many.
constexpr double kStreamShare = 0.25;
constexpr double kMaxStreams = 64.0;

// The cache rounds images up to whole cache lines.
constexpr std::size_t kImageOverhead = 64;

// Of names that are no channels, and of transparency.
void WarnOfOmissions(const Metadata& metadata, const std::vector<std::string>& features) {
  for (const std::string& name : features) {
    const Feature& feature = metadata.features.at(name);
    const std::string where = fmt::format("{}: '{}'", metadata.root.string(), name);
    if (!feature.names_fault.empty()) {
      reader::WarnUser(fmt::format("{}: its channels have no names, because \"names\" has {}",
                                   where, feature.names_fault));
    }
    if (feature.n_channels == 4) {
      reader::WarnUser(fmt::format("{}: the transparency of its images is left out", where));
    }
  }
}

}  // namespace

LeRobotConfig LeRobotConfig::FromConfig(const Config& params) {
  LeRobotConfig config{
      .path = params.Require<std::string>(
          "path", "the folder that contains meta/info.json, relative to the current directory")};
  const ConfigKeys keys(params);
  keys("tasks", &config.tasks,
       "reads only episodes with one of these tasks; none for all episodes");
  keys("tolerance_s", &config.tolerance_s, kMinToleranceS, 1.0,
       "how far the frame of a video that is nearest to the time of its row may be from it, in "
       "seconds");
  keys("row_tolerance_s", &config.row_tolerance_s, kMinToleranceS, 1.0,
       "how far the time of a row may be from frame / fps, in seconds; none: tolerance_s");
  keys("memory_limit_mb", &config.memory_limit_mb, 1.0, reader::kMaxMemoryMb,
       "MiB for everything that the reader holds: numbers, open videos, and decoded images, which "
       "are kept as far as they fit");
  config.keys = reader::ReadKeyConfigs(
      params,
      "where each key comes from; if left out, every feature with numbers or images is a key, "
      "except next.* and LeRobot's own columns, without a leading observation. or "
      "observation.images.",
      &ReadFeatureKey, R"({"feature": "action"})");
  return config;
}

std::unique_ptr<Dataset> LeRobotDataset::Create(const Config& params) {
  return std::make_unique<LeRobotDataset>(LeRobotConfig::FromConfig(params));
}

LeRobotDataset::LeRobotDataset(const LeRobotConfig& config)
    : memory_(config.memory_limit_mb),
      tolerance_(config.tolerance_s),
      metadata_(ReadMetadata(
          config.path, static_cast<std::int64_t>(std::max(memory_.limit(), kMinScratchBytes)))),
      selection_(metadata_, config.tasks) {
  spec_.fps = metadata_.fps;
  ends_ = selection_.ends();
  std::set<std::string> features;
  for (const auto& [name, key] : ChooseKeys(metadata_, config.keys)) {
    const Feature& feature = FindFeature(metadata_, name, key.source);
    AddKey(name, feature, key);
    features.insert(feature.name);
  }
  const std::vector<std::string> names(features.begin(), features.end());
  WarnOfOmissions(metadata_, names);
  ranges_ = ReadRanges(metadata_, names);
  HoldNumbers();
  const bool has_images = std::ranges::any_of(sources_, [](const KeySource& source) {
    return source.feature->kind == Feature::Kind::kImage;
  });
  times_.fps = metadata_.fps;
  RowReader(metadata_, selection_, config.row_tolerance_s.value_or(tolerance_), ScratchBytes(),
            &times_)
      .Read(&numbers_, has_images, &image_rows_, &row_tasks_);
  OpenCameras();
}

void LeRobotDataset::AddKey(const std::string& name, const Feature& feature,
                            const reader::KeyConfig& config) {
  MappedKey key =
      feature.is_camera() ? MapCamera(name, feature, config) : MapNumbers(name, feature, config);
  KeySource source{.feature = &feature, .depth = std::move(key.depth)};
  Held held;
  if (!feature.is_camera()) {
    Numbers& numbers = numbers_[feature.name];
    numbers.n = static_cast<std::size_t>(NumElements(feature.shape));
    source.numbers = &numbers;
    held = {.steps = &numbers.buffer,
            .step_bytes = numbers.n * sizeof(float),
            .channels = std::move(key.channels)};
  }
  spec_.keys.push_back(std::move(key.spec));
  sources_.push_back(std::move(source));
  held_.push_back(std::move(held));
}

// That of the rows, as LeRobot itself has it: the table of episodes lists its tasks in any order.
std::string LeRobotDataset::Task(std::int64_t episode) const {
  const std::int64_t index = selection_.episodes().at(static_cast<std::size_t>(episode));
  const auto place = static_cast<std::size_t>(index);
  const std::vector<std::string>& listed = metadata_.episodes[place].tasks;
  const RowTask of_rows = row_tasks_.empty() ? RowTask{} : row_tasks_[place];
  if (of_rows.changes || (!of_rows.index && listed.size() > 1)) {
    std::call_once(has_told_tasks_, [this] { TellSeveralTasks(); });
  }
  if (of_rows.index) return metadata_.tasks.at(*of_rows.index);
  return listed.empty() ? "" : listed[0];
}

void LeRobotDataset::TellSeveralTasks() const {
  const auto n = std::ranges::count_if(selection_.episodes(), [this](std::int64_t index) {
    return metadata_.episodes[static_cast<std::size_t>(index)].tasks.size() > 1;
  });
  reader::WarnUser(fmt::format(
      "{}: {} of {} episodes have several tasks; only that of the first frame is known, and a "
      "copy has it for all steps of the episode",
      metadata_.root.string(), n, selection_.episodes().size()));
}

std::string LeRobotDataset::FeatureName(int key) const {
  return sources_.at(static_cast<std::size_t>(key)).feature->name;
}

std::vector<std::string> LeRobotDataset::ChannelNames(int key) const {
  return PartOf(key, sources_.at(static_cast<std::size_t>(key)).feature->channels);
}

std::optional<StatedRange> LeRobotDataset::RecordedRange(int key) const {
  const auto found = ranges_.find(sources_.at(static_cast<std::size_t>(key)).feature->name);
  if (found == ranges_.end() || selection_.episodes().size() != metadata_.episodes.size()) {
    return std::nullopt;
  }
  StatedRange range{.min = PartOf(key, found->second.min), .max = PartOf(key, found->second.max)};
  if (range.min.empty()) return std::nullopt;  // all axes but the last are pooled
  return range;
}

// Throws if the numbers do not fit.
void LeRobotDataset::HoldNumbers() {
  double n_bytes = 0.0;
  for (const auto& [name, numbers] : numbers_) {
    n_bytes += static_cast<double>(n_steps()) * static_cast<double>(numbers.n * sizeof(float));
  }
  memory_.Hold(n_bytes, "the numbers");
}

// Shares out the memory that the numbers leave. Opens no file.
void LeRobotDataset::OpenCameras() {
  const double room = memory_.left();
  double stream_bytes = 0.0;  // one open file per camera
  double image_bytes = 0.0;   // of all images
  double largest = 0.0;       // image
  for (std::size_t key = 0; key < sources_.size(); ++key) {
    if (sources_[key].numbers != nullptr) continue;
    const double bytes = static_cast<double>(spec_.keys[key].ByteSize() + kImageOverhead);
    stream_bytes += static_cast<double>(StreamBytes(*sources_[key].feature));
    image_bytes += static_cast<double>(n_steps()) * bytes;
    largest = std::max(largest, bytes);
  }
  if (largest == 0.0) return;
  const double n_threads = reader::NumDecoderThreads();
  const double max_idle = std::floor(
      std::clamp(room * kStreamShare / stream_bytes, 1.0, std::min(kMaxStreams, 2.0 * n_threads)));
  const double cache_bytes = std::min(room - max_idle * stream_bytes, image_bytes);
  if (cache_bytes < largest) {
    memory_.Refuse(
        fmt::format("the numbers take {:.0f} bytes, open files with images {:.0f}, and the "
                    "largest image {:.0f}",
                    memory_.held(), stream_bytes, largest),
        memory_.held() + stream_bytes + largest);
  }
  memory_.RequireMachineHas(cache_bytes);
  cache_ = std::make_unique<reader::ChunkCache>(static_cast<std::size_t>(cache_bytes));
  const auto n_idle = static_cast<std::size_t>(max_idle);
  for (KeySource& source : sources_) {
    if (source.numbers != nullptr) continue;
    source.camera =
        source.feature->kind == Feature::Kind::kVideo
            ? MakeVideoCamera(metadata_, *source.feature, source.depth, times_, tolerance_, n_idle)
            : MakeParquetCamera(image_rows_, *source.feature, source.depth, n_idle, ScratchBytes());
  }
}

std::int64_t LeRobotDataset::ScratchBytes() const {
  return static_cast<std::int64_t>(std::max(kMinScratchBytes, memory_.left()));
}

void LeRobotDataset::ReadImages(std::size_t key, std::int64_t begin, std::int64_t end,
                                std::span<std::byte> out) const {
  RecordedCamera& camera = *sources_[key].camera;
  const std::size_t image_bytes = spec_.keys[key].ByteSize();
  for (std::int64_t step = begin; step < end; ++step) {
    const FrameId frame = selection_.FrameAt(step);
    const auto keep = [&](std::int64_t other, const reader::ChunkCache::Decode& write) {
      cache_->Offer({&camera, step - frame.frame + other}, image_bytes, write);
    };
    const auto image = cache_->Get({&camera, step}, image_bytes, [&](std::span<std::byte> room) {
      camera.Decode(frame, room, keep);
    });
    const auto place = static_cast<std::size_t>(step - begin) * image_bytes;
    std::memcpy(out.data() + place, image->bytes().data(), image_bytes);
  }
}

}  // namespace dp_bench::lerobot
