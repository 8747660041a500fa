#include "data/lerobot/writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/thread_pool.h"
#include "data/lerobot/image_file_encoder.h"
#include "data/lerobot/metadata.h"
#include "data/lerobot/parquet_file.h"
#include "dp_bench/config_keys.h"
#include "media/video_encoder.h"
#include "media/video_joiner.h"

namespace dp_bench::lerobot {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMaxNotesBytes = std::size_t{64} << 20;

constexpr std::size_t kMaxImageBytes = (std::size_t{1} << 31) - 2;  // Arrow counts in int32

// values of the param codec
constexpr const char* kAuto = "auto";
constexpr const char* kPng = "png";

// LeRobot's settings for encoders
constexpr int kKeyFrameEvery = 2;
constexpr const char* kPresetOfAv1 = "12";  // of SVT-AV1
constexpr const char* kPreset = "medium";   // of x264 and x265

constexpr std::size_t kByteLevels = 256;
constexpr std::size_t kWordLevels = 65536;

std::string Dump(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::vector<std::string> ChannelNames(const KeySpec& key) {
  if (key.NumElements() == 1) return {key.name};
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < key.NumElements(); ++i) {
    names.push_back(fmt::format("{}.{}", key.name, i));
  }
  return names;
}

void RequireWritable(const std::string& feature, const KeySpec& key) {
  const bool is_known = (!key.is_image() && key.dtype == DType::kFloat32) ||
                        (key.type == KeyType::kRgb && key.dtype == DType::kUInt8) ||
                        (key.type == KeyType::kDepth && key.dtype == DType::kUInt16);
  if (is_known) return;
  throw ShapeError(
      "feature '{}': expected float32 numbers, uint8 rgb or uint16 depth [mm]; key '{}' is {} {} "
      "{}. To copy a dataset without it, name the other keys: --keys action,...",
      feature, key.name, Name(key.type), Name(key.dtype), ToString(key.shape));
}

const KeySpec& FindKey(const std::string& feature, const std::string& name,
                       const DatasetSpec& spec) {
  const auto found = std::ranges::find(spec.keys, name, &KeySpec::name);
  if (found != spec.keys.end()) return *found;
  std::vector<std::string> names;
  for (const KeySpec& key : spec.keys) names.push_back(key.name);
  throw ConfigError("feature '{}': there is no key '{}'; expected one of {}", feature, name,
                    fmt::join(names, ", "));
}

FeatureConfig ReadFeature(const std::string& name, const Config& feature) {
  return {.name = name,
          .keys = feature.Require<std::vector<std::string>>(
              "keys", "the keys whose numbers it consists of, in this order; one for a camera"),
          .channels = feature.Get<std::vector<std::string>>(
              "names", {}, "a name per number; none for the names of the keys")};
}

}  // namespace

LeRobotWriterConfig LeRobotWriterConfig::FromConfig(const Config& params) {
  LeRobotWriterConfig config{
      .path = core::Beside(
          params.Require<std::string>("path", "the folder to write, which must not exist"), ""),
      .source = params.Require<std::string>(
          "source", "where the episodes come from; to continue, it must be the same")};
  const ConfigKeys keys(params);
  keys("robot_type", &config.robot_type,
       "robot_type of meta/info.json; none for that of the LeRobot datasets that are copied");
  keys.Choice("version", &config.version, {{"v3.0", Version::kV30}, {"v2.1", Version::kV21}},
              "version of the format");
  keys("data_files_size_in_mb", &config.data_file_mb, 1e-3, 1e6,
       "MiB of a Parquet file of version 3.0, after which the next one begins");
  keys("video_files_size_in_mb", &config.video_file_mb, 1e-3, 1e6,
       "MiB of a video file of version 3.0, after which the next one begins");
  config.codec = params.GetChoice(
      "codec", {"auto", "png", "h264", "hevc", "av1"},
      "how images are stored. auto: videos of LeRobot datasets are copied, other images are "
      "PNG; png: all are PNG; h264, hevc, av1: videos with this codec are copied, other colour "
      "images are encoded, and other depth is PNG");
  keys("crf", &config.crf, 0, 51, "quality of videos that are encoded: 0 is the best");
  config.recorded = SourceConfig::FromConfig(
      params.Sub("recorded", "where the episodes are recorded; `dp_bench dataset` fills it in"));
  const Config features = params.Sub("features", "LeRobot's features");
  for (const std::string& name : features.Keys()) {
    config.features.push_back(ReadFeature(name, features.Sub(name)));
  }
  return config;
}

// What is collected of a feature during an episode.
struct LeRobotWriter::Track {
  WrittenFeature feature;
  std::vector<std::size_t> keys;              // indices in the spec
  std::vector<float> numbers;                 // [steps, n]
  std::optional<CopiedColumn> column;         // in place of the numbers
  std::unique_ptr<ImageFileEncoder> encoder;  // of PNG
  std::optional<media::VideoCodec> codec;     // of videos that are encoded
  std::unique_ptr<ImageVideo> video;          // of this episode
  std::optional<ImageSummary> summary;
};

std::unique_ptr<DatasetWriter> LeRobotWriter::Create(const Config& params,
                                                     const DatasetSpec& spec) {
  LeRobotWriterConfig config = LeRobotWriterConfig::FromConfig(params);
  params.RejectUnread();  // before a folder is created
  return std::make_unique<LeRobotWriter>(std::move(config), spec);
}

LeRobotWriter::LeRobotWriter(LeRobotWriterConfig config, const DatasetSpec& spec)
    : config_(std::move(config)),
      recorded_(config_.recorded),
      keys_(spec.keys),
      pool_(std::make_unique<core::ThreadPool>(0)) {
  dataset_.version = config_.version;
  dataset_.fps = spec.fps;
  dataset_.robot = config_.robot_type ? config_.robot_type : recorded_.RobotType(&notes_);
  dataset_.data_file_mb = config_.data_file_mb;
  dataset_.video_file_mb = config_.video_file_mb;
  for (const FeatureConfig& feature : config_.features) AddTrack(feature, spec);
  for (const std::unique_ptr<Track>& track : tracks_) dataset_.features.push_back(track->feature);
  RequireAllKeys(spec);
  AddOtherColumns();
  unfinished_ =
      std::make_unique<reader::UnfinishedDataset>(config_.path, /*is_folder=*/true, Identity());
  ReadEpisodes();
}

LeRobotWriter::~LeRobotWriter() = default;

void LeRobotWriter::AddTrack(const FeatureConfig& config, const DatasetSpec& spec) {
  auto track = std::make_unique<Track>();
  track->feature.name = config.name;
  std::vector<const KeySpec*> keys;
  for (const std::string& name : config.keys) {
    const KeySpec& key = FindKey(config.name, name, spec);
    RequireWritable(config.name, key);
    track->keys.push_back(static_cast<std::size_t>(&key - spec.keys.data()));
    keys.push_back(&key);
  }
  const bool has_camera =
      std::ranges::any_of(keys, [](const KeySpec* key) { return key->is_image(); });
  if (has_camera && keys.size() != 1) {
    throw ConfigError("feature '{}': expected one key for a camera, found {}", config.name,
                      fmt::join(config.keys, ", "));
  }
  if (has_camera) {
    AddCamera(config, *keys[0], track.get());
  } else {
    AddNumbers(config, keys, track.get());
  }
  tracks_.push_back(std::move(track));
}

void LeRobotWriter::AddNumbers(const FeatureConfig& config, std::span<const KeySpec* const> keys,
                               Track* track) {
  WrittenFeature& feature = track->feature;
  for (const KeySpec* key : keys) {
    feature.n += key->NumElements();
    const std::vector<std::string> names = ChannelNames(*key);
    feature.channels.insert(feature.channels.end(), names.begin(), names.end());
  }
  if (!config.channels.empty()) {
    if (std::ssize(config.channels) != feature.n) {
      throw ConfigError("feature '{}': expected {} names, found {}", config.name, feature.n,
                        config.channels.size());
    }
    feature.channels = config.channels;
  }
  if (keys.size() != 1) return;
  feature.entry = recorded_.FindEntry(keys[0]->name, config.channels, feature.n);
  track->column = recorded_.FindColumn(keys[0]->name, config.channels, feature.n);
  if (track->column && track->column->name != config.name) track->column.reset();
  if (track->column) feature.entry = track->column->entry;
}

// Decides how the images are stored.
void LeRobotWriter::AddCamera(const FeatureConfig& config, const KeySpec& key, Track* track) {
  WrittenFeature& feature = track->feature;
  feature.type = key.type;
  feature.height = static_cast<int>(key.shape[1]);
  feature.width = static_cast<int>(key.shape[2]);
  RecordedVideo recorded = recorded_.is_empty() ? RecordedVideo() : recorded_.FindVideo(key.name);
  const bool is_depth = key.type == KeyType::kDepth;
  if (recorded.is_video && is_depth && !recorded.is_depth) {
    recorded.obstacle = "they are colour, which is read as depth";
  }
  const bool is_auto = config_.codec == kAuto;
  const bool is_encoded = !is_auto && config_.codec != kPng && !is_depth;
  if (is_auto && recorded.is_video && !recorded.obstacle.empty()) {
    throw UsageError(
        "feature '{}': its videos cannot be copied: {}. {}tore the decoded images (--param "
        "codec=png).",
        config.name, recorded.obstacle,
        is_depth ? "S" : "Encode them again (--param codec=av1, h264 or hevc) or s");
  }
  const bool is_copied = recorded.is_video && recorded.obstacle.empty() && config_.codec != kPng &&
                         (!is_encoded || config_.codec == recorded.codec);
  if (is_copied) {
    feature.is_video = true;
    feature.entry = recorded.entry;
    feature.image_unit = recorded.depth_unit;
    const bool has_statistics = recorded_.n_episodes() > 0 && recorded_.StatisticsOf(key.name, 0);
    notes_.push_back(fmt::format("{}: {} video, copied bit for bit{}", config.name, recorded.codec,
                                 has_statistics ? "" : "; statistics of its decoded images"));
  } else if (is_encoded) {
    AddEncodedCamera(recorded.is_video, track);
  } else {
    track->encoder = std::make_unique<ImageFileEncoder>(feature, *pool_);
    notes_.push_back(fmt::format("{}: PNG, lossless{}", config.name,
                                 recorded.is_video ? ", of the decoded video" : ""));
  }
}

void LeRobotWriter::AddEncodedCamera(bool is_again, Track* track) {
  WrittenFeature& feature = track->feature;
  if (feature.width % 2 != 0 || feature.height % 2 != 0) {
    throw ShapeError(
        "feature '{}': videos have an even width and height, but its images are {} x {}; use "
        "--param codec=png",
        feature.name, feature.width, feature.height);
  }
  feature.is_video = true;
  track->codec = media::ParseVideoCodec(config_.codec);
  const media::VideoOptions options = OptionsOf(*track);
  const std::string encoder = media::FindVideoEncoder(options.codec, feature.width, feature.height);
  nlohmann::ordered_json preset = options.preset;
  if (encoder == "libsvtav1") preset = std::stoi(options.preset);
  if (encoder == "libaom-av1") preset = nullptr;  // it has none
  feature.entry = VideoEntry(feature, options, preset);
  notes_.push_back(fmt::format("{}: {} video, {} with loss ({}, crf {})", feature.name,
                               media::Name(options.codec), is_again ? "encoded again" : "encoded",
                               encoder, options.crf));
}

media::VideoOptions LeRobotWriter::OptionsOf(const Track& track) const {
  const bool is_av1 = *track.codec == media::VideoCodec::kAv1;
  return {.width = track.feature.width,
          .height = track.feature.height,
          .fps = dataset_.fps,
          .codec = *track.codec,
          .crf = config_.crf,
          .preset = is_av1 ? kPresetOfAv1 : kPreset,
          .key_frame_every = kKeyFrameEvery};
}

// Those of the source that no key shows.
void LeRobotWriter::AddOtherColumns() {
  for (const std::unique_ptr<Track>& track : tracks_) {
    if (track->column) columns_.push_back(*track->column);
  }
  if (recorded_.is_empty()) return;
  for (const CopiedColumn& column : recorded_.OtherColumns(&notes_)) {
    const bool is_taken = std::ranges::any_of(tracks_, [&](const std::unique_ptr<Track>& track) {
      return track->feature.name == column.name;
    });
    if (is_taken) {
      notes_.push_back(fmt::format("{}: left out: a key has this name", column.name));
      continue;
    }
    columns_.push_back(column);
    dataset_.features.push_back({.name = column.name, .entry = column.entry});
    notes_.push_back(fmt::format("{}: copied", column.name));
  }
}

void LeRobotWriter::RequireAllKeys(const DatasetSpec& spec) const {
  for (std::size_t i = 0; i < spec.keys.size(); ++i) {
    const auto n = std::ranges::count_if(tracks_, [i](const std::unique_ptr<Track>& track) {
      return std::ranges::find(track->keys, i) != track->keys.end();
    });
    if (n == 1) continue;
    throw ConfigError("expected one feature for the key '{}', found {}", spec.keys[i].name, n);
  }
}

// What the files of episodes depend on.
json LeRobotWriter::Identity() const {
  json features = json::object();
  for (const WrittenFeature& feature : dataset_.features) {
    features[feature.name] = {{"type", Name(feature.type)},
                              {"n", feature.n},
                              {"width", feature.width},
                              {"height", feature.height},
                              {"entry", feature.entry}};
  }
  for (const std::unique_ptr<Track>& track : tracks_) {
    json& keys = features[track->feature.name]["keys"];
    for (const std::size_t key : track->keys) keys.push_back(keys_[key].name);
  }
  return {{"source", config_.source},
          {"fps", dataset_.fps},
          {"crf", config_.crf},
          {"features", features}};
}

fs::path LeRobotWriter::EpisodeFile(std::int64_t episode) const {
  return unfinished_->folder() / "data" / fmt::format("episode_{:06d}.parquet", episode);
}

fs::path LeRobotWriter::NotesFile(std::int64_t episode) const {
  return unfinished_->folder() / "episodes" / fmt::format("episode_{:06d}.json", episode);
}

fs::path LeRobotWriter::VideoFile(const std::string& camera, std::int64_t episode) const {
  return unfinished_->folder() / "videos" / camera / fmt::format("episode_{:06d}.mp4", episode);
}

// Of the files of an episode.
json LeRobotWriter::SizesOf(std::int64_t episode) const {
  const auto size = [](const fs::path& file) {
    return fs::exists(file) ? static_cast<std::int64_t>(fs::file_size(file)) : -1;
  };
  json sizes = {{"data", size(EpisodeFile(episode))}};
  for (const WrittenFeature& feature : dataset_.features) {
    if (feature.is_video) sizes["videos"][feature.name] = size(VideoFile(feature.name, episode));
  }
  return sizes;
}

// The notes of an episode are written last. After a power cut they or the files may be shorter: to
// make each one durable takes many times as long as to write it, and Finish does that.
void LeRobotWriter::ReadEpisodes() {
  core::CreateFolders(EpisodeFile(0).parent_path());
  core::CreateFolders(NotesFile(0).parent_path());
  for (const WrittenFeature& feature : dataset_.features) {
    if (feature.is_video) core::CreateFolders(VideoFile(feature.name, 0).parent_path());
  }
  while (fs::exists(NotesFile(n_episodes()))) {
    const fs::path file = NotesFile(n_episodes());
    const json notes = core::TryParseJson(core::ReadTextFile(file, kMaxNotesBytes));
    if (notes.is_null()) return;
    const std::string name = file.string();
    const core::JsonView view(notes, name);
    if (view.At("bytes").json() != SizesOf(n_episodes())) return;
    WrittenEpisode episode{.length = view.Get<std::int64_t>("length"),
                           .task = view.Get<std::string>("task")};
    for (const auto& [feature, statistics] : view.At("stats").Members()) {
      episode.statistics[feature] = ReadStatistics(statistics);
    }
    n_steps_ += episode.length;
    dataset_.episodes.push_back(std::move(episode));
  }
}

std::int64_t LeRobotWriter::n_episodes() const { return std::ssize(dataset_.episodes); }

void LeRobotWriter::BeginEpisode(const EpisodeHead& head) {
  head_ = head;
  n_appended_ = 0;
  for (const std::unique_ptr<Track>& track : tracks_) {
    track->numbers.clear();
    const WrittenFeature& feature = track->feature;
    if (!feature.is_camera()) continue;
    const bool is_rgb = feature.type == KeyType::kRgb;
    if (track->codec) {
      track->video =
          std::make_unique<ImageVideo>(VideoFile(feature.name, n_episodes()), OptionsOf(*track));
    }
    // LeRobot keeps depth in its unit
    track->summary.emplace(ImageSummary::Shape{.n_frames = head.n_steps,
                                               .width = feature.width,
                                               .height = feature.height,
                                               .n_channels = feature.n_channels(),
                                               .n_levels = is_rgb ? kByteLevels : kWordLevels,
                                               .scale = is_rgb ? 255.0 : feature.image_unit});
  }
}

void LeRobotWriter::Append(std::span<const std::span<const std::byte>> values) {
  for (const std::unique_ptr<Track>& track : tracks_) {
    if (track->feature.is_camera()) {
      const std::span<const std::byte> image = values[track->keys[0]];
      if (track->encoder != nullptr) track->encoder->Add(image);
      if (track->video != nullptr) track->video->Add(image);
      if (track->feature.type == KeyType::kRgb) {
        track->summary->Add(
            std::span(reinterpret_cast<const std::uint8_t*>(image.data()), image.size()));
      } else {
        track->summary->Add(std::span(reinterpret_cast<const std::uint16_t*>(image.data()),
                                      image.size() / sizeof(std::uint16_t)));
      }
      continue;
    }
    if (track->column) continue;
    for (const std::size_t key : track->keys) {
      const std::size_t n = values[key].size() / sizeof(float);
      track->numbers.resize(track->numbers.size() + n);
      std::memcpy(track->numbers.data() + track->numbers.size() - n, values[key].data(),
                  values[key].size());
    }
  }
  if (++n_appended_ == head_.n_steps) EndEpisode();
}

void LeRobotWriter::EndEpisode() {
  const std::int64_t episode = n_episodes();
  const auto n = static_cast<std::size_t>(head_.n_steps);
  WrittenEpisode written{.length = head_.n_steps, .task = head_.task};
  const auto summarize = [&](const std::string& feature, const auto& values, std::size_t width) {
    written.statistics[feature] =
        SummarizeNumbers(std::vector<double>(values.begin(), values.end()), width);
  };

  ParquetTable table;
  for (const std::unique_ptr<Track>& track : tracks_) {
    const WrittenFeature& feature = track->feature;
    if (feature.is_camera()) {
      EndImages(*track, &table);
      const bool is_copied = feature.is_video && !track->codec;
      const auto recorded =
          is_copied ? recorded_.StatisticsOf(keys_[track->keys[0]].name, episode) : std::nullopt;
      written.statistics[feature.name] = recorded ? *recorded : track->summary->Finish();
    } else if (!track->column) {
      const auto width = static_cast<std::size_t>(feature.n);
      table.AddFloats(feature.name, track->numbers, width);
      summarize(feature.name, track->numbers, width);
    }
  }
  recorded_.Copy(columns_, episode, head_.n_steps, &table, &written.statistics);
  const std::vector<std::string> tasks = dataset_.Tasks();
  const auto task_index = std::ranges::find(tasks, head_.task) - tasks.begin();
  std::vector<float> times(n);
  std::map<std::string, std::vector<std::int64_t>> integers = {
      {"frame_index", std::vector<std::int64_t>(n)},
      {"episode_index", std::vector(n, episode)},
      {"index", std::vector<std::int64_t>(n)},
      {"task_index", std::vector<std::int64_t>(n, task_index)}};
  std::iota(integers["frame_index"].begin(), integers["frame_index"].end(), std::int64_t{0});
  std::iota(integers["index"].begin(), integers["index"].end(), n_steps_);
  for (std::size_t i = 0; i < n; ++i) {
    times[i] = static_cast<float>(static_cast<double>(i) / dataset_.fps);
  }
  table.AddFloats("timestamp", times, 1);
  summarize("timestamp", times, 1);
  for (const char* const name : kIntegerColumns) {
    table.AddIntegers(name, integers.at(name));
    summarize(name, integers.at(name), 1);
  }
  table.SetMetadata("huggingface", DescribeColumns(dataset_.features));

  const fs::path temporary = core::TemporaryFor(EpisodeFile(episode));
  table.Write(temporary);
  fs::rename(temporary, EpisodeFile(episode));
  json statistics;
  for (const auto& [feature, values] : written.statistics) {
    statistics[feature] = ToJson(values, /*is_image=*/false);
  }
  const fs::path notes = core::TemporaryFor(NotesFile(episode));
  core::WriteNewFile(notes, Dump({{"length", written.length},
                                  {"task", written.task},
                                  {"stats", statistics},
                                  {"bytes", SizesOf(episode)}}));
  fs::rename(notes, NotesFile(episode));
  n_steps_ += written.length;
  dataset_.episodes.push_back(std::move(written));
}

// The video is complete before the notes of the episode are written.
void LeRobotWriter::EndImages(Track& track, ParquetTable* table) {
  if (track.encoder != nullptr) {
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < head_.n_steps; ++i) {
      names.push_back(fmt::format("frame-{:06d}.png", i));
    }
    const auto files = track.encoder->Take();
    std::size_t n_bytes = 0;
    for (const auto& file : files) n_bytes += file.size();
    if (n_bytes > kMaxImageBytes) {
      throw DataError(
          "'{}': the PNG files of episode {} have {} bytes, more than the {} of a column; encode "
          "videos with --param codec=av1, h264 or hevc",
          track.feature.name, n_episodes(), n_bytes, kMaxImageBytes);
    }
    table->AddImages(track.feature.name, files, names);
  } else if (track.video != nullptr) {
    track.video->Finish();
    track.video.reset();
  } else {
    CopyVideo(track);
  }
}

void LeRobotWriter::CopyVideo(const Track& track) const {
  const media::VideoPart part = recorded_.VideoOf(keys_[track.keys[0]].name, n_episodes());
  DPB_ASSERT(part.n_frames == head_.n_steps);
  const fs::path file = VideoFile(track.feature.name, n_episodes());
  const fs::path temporary = core::TemporaryFor(file);
  media::VideoJoiner joiner(temporary, dataset_.fps);
  const bool is_first = joiner.TryAppend(part);
  DPB_ASSERT(is_first);
  joiner.Finish();
  fs::rename(temporary, file);
}

json LeRobotWriter::KeySources() const {
  json keys = json::object();
  for (const std::unique_ptr<Track>& track : tracks_) {
    std::int64_t begin = 0;
    for (const std::size_t index : track->keys) {
      const KeySpec& key = keys_[index];
      json source = {{"feature", track->feature.name}};
      if (track->keys.size() > 1) {
        source["begin"] = begin;
        source["end"] = begin += key.NumElements();
      }
      const bool is_list = key.is_image() || key.shape.size() == 1;
      if (!is_list) source["shape"] = key.shape;
      keys[key.name] = std::move(source);
    }
  }
  return keys;
}

void LeRobotWriter::Finish() {
  reader::RequireEpisodes(n_episodes(), config_.path);
  core::AtomicFolder folder(config_.path);
  WriteDataFiles(
      folder.temporary(), [&](std::int64_t i) { return EpisodeFile(i); }, &dataset_);
  for (const WrittenFeature& feature : dataset_.features) {
    if (!feature.is_video) continue;
    const auto file_of = [&](std::int64_t i) { return VideoFile(feature.name, i); };
    WriteVideoFiles(folder.temporary(), feature.name, file_of, &dataset_);
  }
  WriteMeta(folder.temporary(), dataset_);
  core::WriteNewFile(folder.temporary() / kKeySourcesFile, Dump({{"keys", KeySources()}}));
  unfinished_->Publish([&] { folder.Commit(); });
}

}  // namespace dp_bench::lerobot
