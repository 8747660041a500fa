#include "lerobot_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "data/lerobot/key_sources.h"
#include "data/lerobot/parquet_file.h"
#include "dp_bench/error.h"

namespace dp_bench::lerobot {
namespace {

constexpr double kBytesPerMb = 1 << 20;
constexpr std::size_t kMaxAxes = 8;
constexpr double kMinMemoryLimitMb = 1.0;
constexpr double kMaxMemoryLimitMb = 1e7;
constexpr double kMinToleranceS = 1e-9;

// A file of numbers is decoded in what the limit leaves, but at least in this much.
constexpr double kMinScratchBytes = 16 << 20;

// Open files of one camera may take at most this part of the limit, and there are at most this
// many.
constexpr double kStreamShare = 0.25;
constexpr double kMaxStreams = 64.0;

// The cache rounds pictures up to whole cache lines.
constexpr std::size_t kPictureOverhead = 64;

// LeRobot adds these columns to every data set.
const std::set<std::string>& OwnColumns() {
  static const std::set<std::string> columns = {"timestamp", "frame_index", "episode_index",
                                                "index", "task_index"};
  return columns;
}

std::string KeyName(std::string_view feature) {
  for (const std::string_view begin : {"observation.images.", "observation."}) {
    if (feature.starts_with(begin)) return std::string(feature.substr(begin.size()));
  }
  return std::string(feature);
}

double MachineMemory() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGESIZE));
}

[[noreturn]] void RefuseLimit(double limit, std::string_view what, double needed) {
  throw Error(
      ErrorCode::kConfig,
      fmt::format("dataset.params.memory_limit_mb is {:.6g}, but {}; expected {:.0f} or more",
                  limit / kBytesPerMb, what, std::ceil(needed / kBytesPerMb)));
}

KeyConfig ReadKey(const Config& key) {
  KeyConfig config{
      .feature = key.Require<std::string>("feature", "the feature, such as observation.state"),
      .type = std::nullopt,
      .names = key.Get<std::vector<std::string>>(
          "names", {},
          "channels to take, by the names in meta/info.json and in this order; numbers only, none "
          "for all"),
      .begin = key.GetOptional<std::int64_t>("begin",
                                             "first channel to take, instead of names; none for 0"),
      .end = key.GetOptional<std::int64_t>(
          "end", "index after the last channel to take, instead of names; none for all"),
      .shape = key.Get<std::vector<std::int64_t>>(
          "shape", {}, "shape of the key, such as [9, 2]; none for a list of the numbers")};
  const std::string type = key.GetChoice(
      "type", {"auto", "rgb", "depth"}, "colour or depth images; auto is what meta/info.json says");
  if (type != "auto") config.type = type == "rgb" ? KeyType::kRgb : KeyType::kDepth;
  config.mm_per_level = key.GetOptionalInRange(
      "mm_per_level", 1e-3, 1e4,
      "mm per level of depth that is stored in pictures with 8 bits, as in recordings of Kuavo "
      "robots; required for them");
  return config;
}

}  // namespace

LeRobotConfig LeRobotConfig::FromConfig(const Config& params) {
  const LeRobotConfig defaults;
  LeRobotConfig config{
      .path = params.Require<std::string>(
          "path", "the folder that contains meta/info.json, relative to the current directory"),
      .tasks = params.Get<std::vector<std::string>>(
          "tasks", {}, "reads only episodes with one of these tasks; none for all episodes")};
  config.tolerance_s = params.GetInRange(
      "tolerance_s", defaults.tolerance_s, kMinToleranceS, 1.0,
      "how far a time may be from frame / fps, and a video frame from its time, in seconds");
  config.memory_limit_mb = params.GetInRange(
      "memory_limit_mb", defaults.memory_limit_mb, kMinMemoryLimitMb, kMaxMemoryLimitMb,
      "MiB for everything that the reader holds: numbers, open videos, and decoded pictures, which "
      "are kept as far as they fit");
  if (!params.Has("keys")) return config;

  const Config keys = params.Sub(
      "keys",
      "where each key comes from; if left out, every feature with numbers or pictures is a "
      "key, except next.* and LeRobot's own columns, without a leading observation. or "
      "observation.images.");
  for (const std::string& name : keys.Keys()) config.keys[name] = ReadKey(keys.Sub(name));
  if (!config.keys.contains("action")) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{} needs the key 'action', such as {{\"feature\": \"action\"}}",
                            params.Where("keys")));
  }
  return config;
}

std::unique_ptr<Dataset> LeRobotDataset::Create(const Config& params) {
  return std::make_unique<LeRobotDataset>(LeRobotConfig::FromConfig(params));
}

LeRobotDataset::LeRobotDataset(const LeRobotConfig& config)
    : memory_limit_(config.memory_limit_mb * kBytesPerMb),
      tolerance_(config.tolerance_s),
      metadata_(ReadMetadata(
          config.path, static_cast<std::int64_t>(std::max(memory_limit_, kMinScratchBytes)))) {
  spec_.fps = metadata_.fps;
  SelectEpisodes(config.tasks);
  std::set<std::string> features;
  for (const auto& [name, key] : config.keys.empty() ? FindKeys() : config.keys) {
    const Feature& feature = FindFeature(name, key.feature);
    if (feature.is_camera()) {
      AddCameraKey(name, feature, key);
    } else {
      AddNumbersKey(name, feature, key);
    }
    features.insert(feature.name);
  }
  ranges_ = ReadRanges(metadata_, {features.begin(), features.end()});
  LoadRows();
  OpenCameras();
}

void LeRobotDataset::SelectEpisodes(const std::vector<std::string>& tasks) {
  for (const std::string& task : tasks) {
    if (std::ranges::find(metadata_.tasks, task) == metadata_.tasks.end()) {
      throw Error(ErrorCode::kConfig,
                  fmt::format("dataset.params.tasks: {} has no task '{}'; its tasks are: {}",
                              metadata_.root.string(), task, fmt::join(metadata_.tasks, "; ")));
    }
  }
  std::int64_t n_steps = 0;
  for (std::size_t i = 0; i < metadata_.episodes.size(); ++i) {
    const Episode& episode = metadata_.episodes[i];
    const bool is_selected =
        tasks.empty() || std::ranges::any_of(episode.tasks, [&](const std::string& task) {
          return std::ranges::find(tasks, task) != tasks.end();
        });
    if (!is_selected) continue;
    places_[static_cast<std::int64_t>(i)] = episodes_.size();
    episodes_.push_back(static_cast<std::int64_t>(i));
    episode_ends_.push_back(n_steps += episode.length);
  }
  if (episodes_.empty()) {
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset.params.tasks: no episode of {} has one of these tasks: {}",
                            metadata_.root.string(), fmt::join(tasks, "; ")));
  }
}

std::map<std::string, KeyConfig> LeRobotDataset::FindKeys() const {
  const std::optional<Config> sources = ReadKeySources(metadata_.root);
  if (!sources) return KeysOfFeatures();
  std::map<std::string, KeyConfig> keys;
  for (const std::string& key : sources->Keys()) keys[key] = ReadKey(sources->Sub(key));
  sources->RejectUnread();
  return keys;
}

std::map<std::string, KeyConfig> LeRobotDataset::KeysOfFeatures() const {
  std::map<std::string, KeyConfig> keys;
  for (const auto& [name, feature] : metadata_.features) {
    const bool is_empty = !feature.is_camera() && NumElements(feature.shape) == 0;
    if (feature.kind == Feature::Kind::kOther || is_empty || OwnColumns().contains(name) ||
        name.starts_with("next.")) {
      continue;
    }
    const auto [other, is_new] = keys.emplace(KeyName(name), KeyConfig{.feature = name});
    if (!is_new) {
      throw Error(ErrorCode::kData,
                  fmt::format("{}: the features '{}' and '{}' would have the same key '{}'; name "
                              "them in dataset.params.keys",
                              metadata_.root.string(), other->second.feature, name, other->first));
    }
  }
  if (!keys.contains("action")) {
    throw Error(ErrorCode::kData,
                fmt::format("{} has no feature 'action'; name the features in dataset.params.keys, "
                            "such as {{\"action\": {{\"feature\": \"actions\"}}}}",
                            metadata_.root.string()));
  }
  return keys;
}

const Feature& LeRobotDataset::FindFeature(const std::string& key,
                                           const std::string& feature) const {
  const auto found = metadata_.features.find(feature);
  if (found == metadata_.features.end()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : metadata_.features) names.push_back(name);
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset key '{}': {} has no feature '{}'; its features are: {}", key,
                            metadata_.root.string(), feature, fmt::join(names, ", ")));
  }
  if (found->second.kind == Feature::Kind::kOther) {
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset key '{}': the feature '{}' holds neither numbers nor "
                            "pictures",
                            key, feature));
  }
  return found->second;
}

void LeRobotDataset::AddNumbersKey(const std::string& name, const Feature& feature,
                                   const KeyConfig& config) {
  const auto n = static_cast<std::int64_t>(NumElements(feature.shape));
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset key '{}': the feature '{}' has shape {}; {}", name,
                            feature.name, ToString(feature.shape), what));
  };
  if (n == 0) refuse("it has no numbers");
  if (config.type || config.mm_per_level) refuse("type and mm_per_level are for pictures");

  KeySpec spec{.name = name, .shape = feature.shape};
  KeySource source{.feature = &feature};
  if (!config.names.empty()) {
    if (config.begin || config.end) refuse("give names, or begin and end");
    for (const std::string& channel : config.names) {
      const auto place = std::ranges::find(feature.channels, channel);
      if (place == feature.channels.end()) {
        refuse(fmt::format("it has no channel '{}'; its channels are: {}", channel,
                           feature.channels.empty()
                               ? "not named"
                               : fmt::format("{}", fmt::join(feature.channels, ", "))));
      }
      source.channels.push_back(static_cast<std::size_t>(place - feature.channels.begin()));
    }
  } else if (config.begin || config.end) {
    const std::int64_t begin = config.begin.value_or(0);
    const std::int64_t end = config.end.value_or(n);
    if (begin < 0 || begin >= end || end > n) {
      refuse(fmt::format("elements {} to {} are no part of its {} per step", begin, end, n));
    }
    source.channels.resize(static_cast<std::size_t>(end - begin));
    std::iota(source.channels.begin(), source.channels.end(), static_cast<std::size_t>(begin));
  }
  if (!source.channels.empty()) {
    spec.shape = {static_cast<std::int64_t>(source.channels.size())};
  }
  if (!config.shape.empty()) {
    const bool is_positive = std::ranges::all_of(config.shape, [](auto size) { return size > 0; });
    if (!is_positive || config.shape.size() > kMaxAxes ||
        NumElements(config.shape) != NumElements(spec.shape)) {
      refuse(fmt::format("its {} numbers do not have the shape {}", NumElements(spec.shape),
                         ToString(config.shape)));
    }
    spec.shape = config.shape;
  }
  if (name == "action" && spec.shape.size() != 1) refuse("the action is a list of numbers");

  Numbers& numbers = numbers_[feature.name];
  numbers.n = static_cast<std::size_t>(n);
  source.numbers = &numbers;
  spec_.keys.push_back(std::move(spec));
  sources_.push_back(std::move(source));
}

void LeRobotDataset::AddCameraKey(const std::string& name, const Feature& feature,
                                  const KeyConfig& config) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset key '{}': the feature '{}' {}", name, feature.name, what));
  };
  if (name == "action") refuse("holds pictures; the action is a list of numbers");
  if (!config.names.empty() || config.begin || config.end || !config.shape.empty()) {
    refuse("holds pictures; names, begin, end and shape are for numbers");
  }
  const KeyType type = config.type.value_or(feature.is_depth ? KeyType::kDepth : KeyType::kRgb);
  std::optional<DepthScale> depth;
  if (type == KeyType::kRgb) {
    if (feature.n_channels != 3) refuse("has one channel; expected \"type\": \"depth\"");
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
  requests_.push_back({.key = spec_.keys.size(), .feature = &feature, .depth = std::move(depth)});
  spec_.keys.push_back({.name = name,
                        .type = type,
                        .shape = {is_rgb ? 3 : 1, feature.height, feature.width},
                        .dtype = is_rgb ? DType::kUInt8 : DType::kUInt16});
  sources_.push_back({.feature = &feature});
}

std::string LeRobotDataset::Task(std::int64_t episode) const {
  const std::int64_t index = episodes_.at(static_cast<std::size_t>(episode));
  const std::vector<std::string>& tasks = metadata_.episodes[static_cast<std::size_t>(index)].tasks;
  return tasks.empty() ? "" : tasks[0];
}

std::string LeRobotDataset::FeatureName(int key) const {
  return sources_.at(static_cast<std::size_t>(key)).feature->name;
}

std::vector<std::string> LeRobotDataset::ChannelNames(int key) const {
  const KeySource& source = sources_.at(static_cast<std::size_t>(key));
  const std::vector<std::string>& all = source.feature->channels;
  if (source.channels.empty() || all.empty()) return all;
  std::vector<std::string> names;
  for (const std::size_t channel : source.channels) names.push_back(all[channel]);
  return names;
}

std::optional<StatedRange> LeRobotDataset::RecordedRange(int key) const {
  const KeySource& source = sources_.at(static_cast<std::size_t>(key));
  const StatedRange& all = ranges_.at(source.feature->name);
  const bool has_each = source.numbers != nullptr && all.min.size() == source.numbers->n;
  if (!has_each || episodes_.size() != metadata_.episodes.size()) return std::nullopt;
  if (source.channels.empty()) return all;
  StatedRange range;
  for (const std::size_t channel : source.channels) {
    range.min.push_back(all.min[channel]);
    range.max.push_back(all.max[channel]);
  }
  return range;
}

void LeRobotDataset::LoadRows() {
  const std::int64_t n_steps = episode_ends_.back();
  for (const auto& [name, numbers] : numbers_) {
    held_bytes_ += static_cast<double>(n_steps) * static_cast<double>(numbers.n * sizeof(float));
  }
  if (held_bytes_ > memory_limit_) {
    RefuseLimit(memory_limit_, fmt::format("the numbers take {:.0f} bytes", held_bytes_),
                held_bytes_);
  }
  if (held_bytes_ > MachineMemory()) {
    throw Error(ErrorCode::kData,
                fmt::format("the numbers of {} need {:.0f} bytes; this machine "
                            "has {:.0f} of memory",
                            metadata_.root.string(), held_bytes_, MachineMemory()));
  }

  std::set<FileNumber> files;
  std::int64_t n_rows = 0;
  for (const std::int64_t episode : episodes_) {
    files.insert(metadata_.episodes[static_cast<std::size_t>(episode)].data);
  }
  // before memory is taken for the frames that meta/ promises
  for (const FileNumber& number : files) {
    n_rows += ParquetFile(metadata_.DataFile(number), ScratchBytes()).num_rows();
  }
  if (n_rows < n_steps) {
    throw Error(ErrorCode::kData,
                fmt::format("{}: the episodes have {} frames, but the data files hold {} rows",
                            metadata_.root.string(), n_steps, n_rows));
  }
  for (auto& [name, numbers] : numbers_) {
    numbers.buffer =
        zarr::PageBuffer(static_cast<std::size_t>(n_steps) * numbers.n * sizeof(float));
  }
  const bool has_pictures = std::ranges::any_of(requests_, [](const CameraRequest& request) {
    return request.feature->kind == Feature::Kind::kImage;
  });
  if (has_pictures) picture_rows_.places.resize(static_cast<std::size_t>(n_steps));
  std::vector<bool> is_filled(static_cast<std::size_t>(n_steps));
  for (const FileNumber& number : files) LoadFile(number, &is_filled);

  const auto missing = std::ranges::find(is_filled, false);
  if (missing == is_filled.end()) return;
  const FrameId frame = FrameAt(missing - is_filled.begin());
  throw Error(
      ErrorCode::kData,
      fmt::format(
          "{}: episode {} has no frame {}",
          metadata_.DataFile(metadata_.episodes[static_cast<std::size_t>(frame.episode)].data)
              .string(),
          frame.episode, frame.frame));
}

// The step of each row of a row group, or -1 for rows of episodes that are not selected.
std::vector<std::int64_t> LeRobotDataset::StepsOfRows(const FileNumber& number, ParquetFile& file,
                                                      int row_group,
                                                      std::vector<bool>* is_filled) const {
  const std::string where = metadata_.DataFile(number).string();
  const auto episodes = file.ReadNumbers<std::int64_t>(row_group, "episode_index");
  const auto frames = file.ReadNumbers<std::int64_t>(row_group, "frame_index");
  const auto times = file.ReadNumbers<double>(row_group, "timestamp");
  std::vector<std::int64_t> steps(episodes.size(), -1);
  for (std::size_t row = 0; row < steps.size(); ++row) {
    const auto place = places_.find(episodes[row]);
    if (place == places_.end()) continue;
    const auto refuse = [&](const std::string& what) {
      throw Error(ErrorCode::kData, fmt::format("{}: episode {}, frame {}: {}", where,
                                                episodes[row], frames[row], what));
    };
    const Episode& episode = metadata_.episodes[static_cast<std::size_t>(episodes[row])];
    if (episode.data != number) {
      refuse(fmt::format("the table of episodes says that it is in {}",
                         metadata_.DataFile(episode.data).string()));
    }
    if (frames[row] < 0 || frames[row] >= episode.length) {
      refuse(fmt::format("the episode has {} frames", episode.length));
    }
    // times are stored as float32
    const double expected = static_cast<double>(frames[row]) / metadata_.fps;
    const double rounding = expected * static_cast<double>(std::numeric_limits<float>::epsilon());
    if (!(std::abs(times[row] - expected) <= tolerance_ + rounding)) {
      refuse(
          fmt::format("expected the time {:.6f} s at {} Hz, found {:.6f} s; the tolerance is {} "
                      "s (dataset.params.tolerance_s)",
                      expected, metadata_.fps, times[row], tolerance_));
    }
    const std::int64_t step = BeginOf(place->second) + frames[row];
    if ((*is_filled)[static_cast<std::size_t>(step)]) refuse("the frame occurs twice");
    (*is_filled)[static_cast<std::size_t>(step)] = true;
    steps[row] = step;
  }
  return steps;
}

void LeRobotDataset::LoadFile(const FileNumber& number, std::vector<bool>* is_filled) {
  const std::filesystem::path path = metadata_.DataFile(number);
  ParquetFile file(path, ScratchBytes());
  const auto file_index = static_cast<std::int32_t>(picture_rows_.files.size());
  picture_rows_.files.push_back(path);
  std::int64_t first_row = 0;
  for (int group = 0; group < file.num_row_groups(); ++group) {
    const std::vector<std::int64_t> steps = StepsOfRows(number, file, group, is_filled);
    for (auto& [name, numbers] : numbers_) {
      const auto values =
          file.ReadNumbers<float>(group, name, static_cast<std::int64_t>(numbers.n));
      RequireFinite(path.string(), name, values, steps);
      for (std::size_t row = 0; row < steps.size(); ++row) {
        if (steps[row] < 0) continue;
        std::memcpy(numbers.buffer.bytes().data() +
                        static_cast<std::size_t>(steps[row]) * numbers.n * sizeof(float),
                    values.data() + row * numbers.n, numbers.n * sizeof(float));
      }
    }
    for (std::size_t row = 0; row < steps.size() && !picture_rows_.places.empty(); ++row) {
      if (steps[row] < 0) continue;
      picture_rows_.places[static_cast<std::size_t>(steps[row])] = {
          .file = file_index, .row = first_row + static_cast<std::int64_t>(row)};
    }
    first_row += static_cast<std::int64_t>(steps.size());
  }
}

// Shares out the memory that the numbers leave. Opens no file.
void LeRobotDataset::OpenCameras() {
  if (requests_.empty()) return;
  const double room = memory_limit_ - held_bytes_;
  double stream_bytes = 0.0;   // one open file per camera
  double picture_bytes = 0.0;  // of all pictures
  double largest = 0.0;        // picture
  for (const CameraRequest& request : requests_) {
    const double bytes = static_cast<double>(spec_.keys[request.key].ByteSize() + kPictureOverhead);
    stream_bytes += static_cast<double>(StreamBytes(*request.feature));
    picture_bytes += static_cast<double>(episode_ends_.back()) * bytes;
    largest = std::max(largest, bytes);
  }
  const double n_threads = std::max(1U, std::thread::hardware_concurrency());
  const double max_idle = std::floor(
      std::clamp(room * kStreamShare / stream_bytes, 1.0, std::min(kMaxStreams, 2.0 * n_threads)));
  const double cache_bytes = std::min(room - max_idle * stream_bytes, picture_bytes);
  if (cache_bytes < largest) {
    RefuseLimit(
        memory_limit_,
        fmt::format("the numbers take {:.0f} bytes, open files with pictures {:.0f}, and the "
                    "largest picture {:.0f}",
                    held_bytes_, stream_bytes, largest),
        held_bytes_ + stream_bytes + largest);
  }
  if (cache_bytes > MachineMemory()) {
    throw Error(
        ErrorCode::kConfig,
        fmt::format("dataset.params.memory_limit_mb is {:.6g}; this machine has {:.0f}, and "
                    "the pictures need more",
                    memory_limit_ / kBytesPerMb, MachineMemory() / kBytesPerMb));
  }
  cache_ = std::make_unique<zarr::ChunkCache>(static_cast<std::size_t>(cache_bytes));
  for (const CameraRequest& request : requests_) {
    const Feature& feature = *request.feature;
    const auto n_idle = static_cast<std::size_t>(max_idle);
    cameras_.push_back(
        feature.kind == Feature::Kind::kVideo
            ? MakeVideoCamera(metadata_, feature, request.depth, tolerance_, n_idle)
            : MakeParquetCamera(picture_rows_, feature, request.depth, n_idle, ScratchBytes()));
    sources_[request.key].camera = cameras_.back().get();
  }
}

std::int64_t LeRobotDataset::ScratchBytes() const {
  return static_cast<std::int64_t>(std::max(kMinScratchBytes, memory_limit_ - held_bytes_));
}

std::int64_t LeRobotDataset::BeginOf(std::size_t place) const {
  return place == 0 ? 0 : episode_ends_[place - 1];
}

FrameId LeRobotDataset::FrameAt(std::int64_t step) const {
  const auto place = static_cast<std::size_t>(std::ranges::upper_bound(episode_ends_, step) -
                                              episode_ends_.begin());
  return {.step = step, .episode = episodes_[place], .frame = step - BeginOf(place)};
}

void LeRobotDataset::RequireFinite(const std::string& where, const std::string& feature,
                                   std::span<const float> values,
                                   std::span<const std::int64_t> steps) const {
  const std::size_t n = steps.empty() ? 0 : values.size() / steps.size();
  for (std::size_t row = 0; row < steps.size(); ++row) {
    if (steps[row] < 0) continue;  // of an episode that is not read
    const std::span<const float> own = values.subspan(row * n, n);
    const auto bad = std::ranges::find_if_not(own, [](float v) { return std::isfinite(v); });
    if (bad == own.end()) continue;
    const FrameId frame = FrameAt(steps[row]);
    throw Error(ErrorCode::kData, fmt::format("{}: episode {}, frame {}: '{}' has the value {}",
                                              where, frame.episode, frame.frame, feature, *bad));
  }
}

void LeRobotDataset::Read(int key, std::int64_t begin, std::int64_t end,
                          std::span<std::byte> out) const {
  if (key < 0 || static_cast<std::size_t>(key) >= spec_.keys.size()) {
    throw Error(ErrorCode::kData,
                fmt::format("expected one of {} keys, found key {}", spec_.keys.size(), key));
  }
  const KeySpec& spec = spec_.keys[static_cast<std::size_t>(key)];
  if (begin < 0 || begin > end || end > episode_ends_.back()) {
    throw Error(ErrorCode::kData, fmt::format("steps {} to {} of '{}' are out of range; it has {}",
                                              begin, end, spec.name, episode_ends_.back()));
  }
  const std::size_t n_bytes = static_cast<std::size_t>(end - begin) * spec.ByteSize();
  if (out.size() != n_bytes) {
    throw Error(ErrorCode::kData, fmt::format("{} steps of '{}' need {} bytes; the buffer has {}",
                                              end - begin, spec.name, n_bytes, out.size()));
  }
  const KeySource& source = sources_[static_cast<std::size_t>(key)];
  if (source.camera != nullptr) {
    ReadPictures(*source.camera, spec.ByteSize(), begin, end, out);
  } else {
    ReadNumbers(source, begin, end, out);
  }
}

void LeRobotDataset::ReadNumbers(const KeySource& source, std::int64_t begin, std::int64_t end,
                                 std::span<std::byte> out) const {
  const std::size_t step_bytes = source.numbers->n * sizeof(float);
  const std::byte* from =
      source.numbers->buffer.bytes().data() + static_cast<std::size_t>(begin) * step_bytes;
  if (out.empty()) return;
  if (source.channels.empty()) {
    std::memcpy(out.data(), from, out.size());
    return;
  }
  std::byte* to = out.data();
  for (std::int64_t step = begin; step < end; ++step, from += step_bytes) {
    for (const std::size_t channel : source.channels) {
      std::memcpy(to, from + channel * sizeof(float), sizeof(float));
      to += sizeof(float);
    }
  }
}

void LeRobotDataset::ReadPictures(RecordedCamera& camera, std::size_t picture_bytes,
                                  std::int64_t begin, std::int64_t end,
                                  std::span<std::byte> out) const {
  for (std::int64_t step = begin; step < end; ++step) {
    const auto picture =
        cache_->Get({&camera, step}, picture_bytes,
                    [&](std::span<std::byte> room) { camera.Decode(FrameAt(step), room); });
    std::memcpy(out.data() + static_cast<std::size_t>(step - begin) * picture_bytes,
                picture->bytes().data(), picture_bytes);
  }
}

}  // namespace dp_bench::lerobot
