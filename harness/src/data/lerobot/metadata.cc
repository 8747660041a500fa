#include "data/lerobot/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/regular_file.h"
#include "data/lerobot/parquet_file.h"
#include "data/reader/keyed_dataset.h"
#include "data/zarr/element_type.h"
#include "data/zarr/store.h"

namespace dp_bench::lerobot {
namespace {

namespace fs = std::filesystem;
using core::JsonView;
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kInfoFile = "meta/info.json";
constexpr std::size_t kMaxJsonBytes = std::size_t{64} << 20;
constexpr std::uint64_t kMaxLinesBytes = std::uint64_t{4} << 30;  // of all episodes
constexpr std::size_t kMaxFeatures = 1000;
constexpr std::int64_t kMaxNumbers = std::int64_t{1} << 24;  // of a feature, per step
constexpr std::int64_t kMaxPixels = 1 << 14;                 // in each direction
constexpr std::size_t kMaxEpisodeFiles = 1'000'000;

constexpr std::size_t kMaxPath = 4096;
constexpr std::array<std::string_view, 5> kFields = {"chunk_index", "episode_chunk", "file_index",
                                                     "episode_index", "video_key"};

bool IsDigits(std::string_view text) {
  return text.size() <= 2 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

Version ParseVersion(const JsonView& info) {
  const auto text = info.Get<std::string>("codebase_version");
  if (text == "v3.0") return Version::kV30;
  if (text == "v2.1") return Version::kV21;
  if (text == "v2.0") return Version::kV20;
  info.At("codebase_version").Fail("expected v2.0, v2.1 or v3.0, found {}", core::ShortDump(text));
}

Feature::Kind ParseKind(const JsonView& entry) {
  const auto dtype = entry.Get<std::string>("dtype");
  if (dtype == "video") return Feature::Kind::kVideo;
  if (dtype == "image") return Feature::Kind::kImage;
  return zarr::ElementTypeNamed(dtype) ? Feature::Kind::kNumbers : Feature::Kind::kOther;
}

using Names = std::vector<std::string>;

// A list of names, or a map from name to index; empty if it is neither.
Names ParseNameList(const OrderedJson& names) {
  if (names.is_array() && std::ranges::all_of(names, &OrderedJson::is_string)) {
    return names.get<Names>();
  }
  if (!names.is_object()) return {};
  Names channels(names.size());
  for (const auto& [name, index] : names.items()) {
    if (!index.is_number_unsigned() || index.get<std::uint64_t>() >= channels.size()) return {};
    channels[index.get<std::size_t>()] = name;
  }
  const bool is_complete = std::ranges::none_of(channels, &std::string::empty);
  return is_complete ? channels : Names{};
}

// Writers also put one or more lists into a list, or under names of groups: {"left": ["x", "y"],
// "right": ["x", "y"]} is left.x, left.y, right.x, right.y.
Names ParseNames(const OrderedJson& names) {
  if (Names channels = ParseNameList(names); !channels.empty()) return channels;
  if (!names.is_structured()) return {};
  Names channels;
  Names with_group;
  for (const auto& [group, part] : names.items()) {
    const Names own = ParseNameList(part);
    if (own.empty()) return {};
    for (const std::string& name : own) {
      channels.push_back(name);
      with_group.push_back(fmt::format("{}.{}", group, name));
    }
  }
  const bool is_unique = std::set(channels.begin(), channels.end()).size() == channels.size();
  return is_unique || names.is_array() ? channels : with_group;
}

// [height, width, channels] of a camera. Writers differ in the order and in the names of the axes.
std::array<std::int64_t, 3> ParseImageShape(const JsonView& entry, Shape shape, Names names) {
  if (shape.size() == 2) shape.push_back(1);
  if (shape.size() != 3) entry.At("shape").Fail("expected two or three sizes of an image");
  names.resize(3);
  const auto is_colour = [&](std::size_t axis) {
    return shape[axis] == 1 || shape[axis] == 3 || shape[axis] == 4;
  };
  auto axis = static_cast<std::size_t>(
      std::ranges::find_if(names, [](const std::string& n) { return n.starts_with("channel"); }) -
      names.begin());
  if (axis == 3 || !is_colour(axis)) {
    if (!is_colour(0) && !is_colour(2)) {
      entry.At("shape").Fail("expected 1, 3 or 4 channels, first or last");
    }
    if (is_colour(0) && is_colour(2)) {
      entry.Fail("expected names (height, width, channels): the shape does not say which is which");
    }
    if (axis < 3) names.assign(3, "");  // the shape contradicts them
    axis = is_colour(2) ? 2 : 0;
  }
  const std::size_t first = axis == 0 ? 1 : 0;
  const std::size_t second = axis == 2 ? 1 : 2;
  std::array sizes = {shape[first], shape[second], shape[axis]};
  if (names[first] == "width") std::swap(sizes[0], sizes[1]);
  if (std::min(sizes[0], sizes[1]) < 1 || std::max(sizes[0], sizes[1]) > kMaxPixels) {
    entry.At("shape").Fail("expected 1 to {} pixels in each direction", kMaxPixels);
  }
  return sizes;
}

// What "info" says about images; older writers put it into "video_info".
template <class T>
std::optional<T> FindInfo(const JsonView& feature, const std::string& key) {
  for (const char* source : {"info", "video_info"}) {
    if (!feature.Has(source)) continue;
    const JsonView info = feature.At(source);
    for (const std::string& name : {key, "video." + key}) {
      if (info.Has(name)) return info.Get<T>(name);
    }
  }
  return std::nullopt;
}

DepthCode ParseDepthCode(const JsonView& entry) {
  const auto require = [&](const char* key) {
    const auto value = FindInfo<double>(entry, key);
    if (!value) entry.Fail("a depth video needs info.video.{}", key);
    return *value;
  };
  const DepthCode code = {.min = require("depth_min"),
                          .max = require("depth_max"),
                          .shift = require("shift"),
                          .is_logarithmic = FindInfo<bool>(entry, "use_log").value_or(true)};
  if (!(code.min >= 0.0 && code.max > code.min)) {
    entry.Fail("expected 0 <= depth_min < depth_max, found {} and {}", code.min, code.max);
  }
  if (code.is_logarithmic && !(code.min + code.shift > 0.0)) {
    entry.Fail("expected depth_min + shift above 0, found {}", code.min + code.shift);
  }
  return code;
}

std::optional<double> ParseDepthUnit(const JsonView& entry) {
  const auto unit = FindInfo<std::string>(entry, "depth_unit");
  if (!unit) return std::nullopt;
  if (*unit == "m") return 1.0;
  if (*unit == "mm") return 1e-3;
  entry.Fail("expected the depth_unit m or mm, found {}", core::ShortDump(*unit));
}

// A name per number; for numbers with several axes, also a name per axis. Other names are noted.
void SetChannels(const OrderedJson& stated, const Names& names, Feature* feature) {
  const auto n = static_cast<std::size_t>(NumElements(feature->shape));
  if (names.size() == n) {
    feature->channels = names;
  } else if (!stated.empty() &&
             (feature->shape.size() == 1 || names.size() != feature->shape.size())) {
    feature->names_fault = fmt::format("{} for {} numbers", core::ShortDump(Json(stated)), n);
  }
}

// `names` are in the order of the file.
Feature ParseFeature(const std::string& name, const JsonView& entry, const OrderedJson& stated) {
  Feature feature{.name = name, .kind = ParseKind(entry)};
  feature.shape = entry.Get<std::vector<std::int64_t>>("shape");
  const Names names = ParseNames(stated);
  if (feature.is_camera()) {
    try {
      zarr::RequireSafeName(name);
    } catch (const Error&) {
      entry.Fail(
          "expected a camera's name that can be part of a path, without empty parts, '.' and '..'");
    }
    const auto [height, width, n_channels] = ParseImageShape(entry, feature.shape, names);
    feature.height = static_cast<int>(height);
    feature.width = static_cast<int>(width);
    feature.n_channels = static_cast<int>(n_channels);
    feature.is_depth = FindInfo<bool>(entry, "is_depth_map").value_or(false);
    if (feature.is_depth && feature.kind == Feature::Kind::kVideo) {
      feature.depth_code = ParseDepthCode(entry);
    }
    if (feature.is_depth) feature.depth_unit = ParseDepthUnit(entry);
    return feature;
  }
  if (feature.kind != Feature::Kind::kNumbers) return feature;
  if (feature.shape.empty()) feature.shape = {1};
  std::int64_t n_numbers = 1;
  for (const std::int64_t size : feature.shape) {
    if (size < 0) {
      entry.At("shape").Fail("expected sizes of 0 or more, found {}", size);
    }
    if (size > 0 && n_numbers > kMaxNumbers / size) {
      entry.At("shape").Fail("expected at most {} numbers, found {}", kMaxNumbers,
                             ToString(feature.shape));
    }
    n_numbers *= size;
  }
  SetChannels(stated, names, &feature);
  return feature;
}

std::map<std::string, Feature> ParseFeatures(const JsonView& info, const OrderedJson& ordered) {
  std::map<std::string, Feature> features;
  const std::map<std::string, JsonView> members = info.At("features").Members();
  if (members.size() > kMaxFeatures) {
    info.At("features")
        .Fail("expected at most {} features, found {}", kMaxFeatures, members.size());
  }
  for (const auto& [name, entry] : members) {
    const OrderedJson& stated = ordered.at("features").at(name);
    features[name] = ParseFeature(name, entry, stated.value("names", OrderedJson()));
  }
  return features;
}

// Entries by their index. Memory grows with the entries, not with an index that a file gives.
template <class T>
using ByIndex = std::map<std::int64_t, T>;

template <class T>
void Add(const std::string& where, std::int64_t index, T value, ByIndex<T>* entries) {
  if (!entries->emplace(index, std::move(value)).second) {
    throw DataError("{}: the index {} occurs twice", where, index);
  }
}

// The entries 0, 1, 2, ... without a gap.
template <class T>
std::vector<T> InOrder(const std::string& where, ByIndex<T> entries) {
  std::vector<T> all;
  for (auto& [index, entry] : entries) {
    if (index != static_cast<std::int64_t>(all.size())) {
      throw DataError("{}: expected the index {}, found {}", where, all.size(), index);
    }
    all.push_back(std::move(entry));
  }
  return all;
}

// Tasks may begin at 1, and some may have been removed.
ByIndex<std::string> ReadTasksOfLines(const fs::path& root, std::int64_t max_bytes) {
  const fs::path path = root / "meta/tasks.jsonl";
  ByIndex<std::string> tasks;
  ReadJsonLines(path, max_bytes, [&](const JsonView& entry) {
    Add(path.string(), entry.Get<std::int64_t>("task_index"), entry.Get<std::string>("task"),
        &tasks);
  });
  return tasks;
}

// A pandas table, whose index is the text.
ByIndex<std::string> ReadTasksOfTable(const fs::path& root, std::int64_t max_bytes) {
  const fs::path path = root / "meta/tasks.parquet";
  ParquetFile file(path, max_bytes);
  const char* text_column = file.HasColumn("task") ? "task" : "__index_level_0__";
  ByIndex<std::string> tasks;
  const std::vector<std::string> texts = file.ReadTexts(text_column);
  const auto indices = file.ReadNumbers<std::int64_t>("task_index");
  for (std::size_t i = 0; i < texts.size(); ++i) Add(path.string(), indices[i], texts[i], &tasks);
  return tasks;
}

void RequireEpisodeLength(const std::string& where, std::int64_t episode, std::int64_t length) {
  if (length < 1 || length > std::numeric_limits<std::int32_t>::max()) {
    throw DataError("{}: episode {} has {} frames, expected at least 1", where, episode, length);
  }
}

void ReadEpisodesOfLines(const JsonView& info, std::int64_t max_bytes, Metadata* metadata) {
  const auto chunk_size = info.Get<std::int64_t>("chunks_size");
  if (chunk_size < 1) info.At("chunks_size").Fail("expected at least 1");
  const fs::path path = metadata->root / "meta/episodes.jsonl";
  ByIndex<Episode> episodes;
  ReadJsonLines(path, max_bytes, [&](const JsonView& entry) {
    const auto index = entry.Get<std::int64_t>("episode_index");
    Episode episode{.length = entry.Get<std::int64_t>("length"),
                    .tasks = entry.Get<std::vector<std::string>>("tasks"),
                    .data = {.chunk = index / chunk_size, .file = index}};
    RequireEpisodeLength(path.string(), index, episode.length);
    Add(path.string(), index, std::move(episode), &episodes);
  });
  metadata->episodes = InOrder(path.string(), std::move(episodes));
  for (const auto& [name, feature] : metadata->features) {
    if (feature.kind != Feature::Kind::kVideo) continue;
    for (const Episode& episode : metadata->episodes) {
      metadata->videos[name].push_back({.file = episode.data});
    }
  }
}

// A file of the table of episodes.
class EpisodeTable {
 public:
  EpisodeTable(const fs::path& path, std::int64_t max_bytes)
      : path_(path.string()), file_(path, max_bytes), indices_(Integers("episode_index")) {}

  void ReadEpisodes(ByIndex<Episode>* episodes) {
    const auto lengths = Integers("length");
    const auto chunks = Integers("data/chunk_index");
    const auto files = Integers("data/file_index");
    const auto first_rows = FirstRows(lengths);
    std::vector<std::vector<std::string>> tasks = file_.ReadTextLists("tasks");
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      RequireEpisodeLength(path_, indices_[i], lengths[i]);
      Add(path_, indices_[i],
          Episode{.length = lengths[i],
                  .tasks = std::move(tasks[i]),
                  .data = {.chunk = chunks[i], .file = files[i]},
                  .first_row = first_rows[i]},
          episodes);
    }
  }

  void ReadVideos(const std::string& camera, ByIndex<VideoPlace>* places) {
    const std::string begin = fmt::format("videos/{}/", camera);
    const auto chunks = Integers(begin + "chunk_index");
    const auto files = Integers(begin + "file_index");
    const auto times = file_.ReadNumbers<double>(begin + "from_timestamp");
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      if (!(times[i] >= 0.0 && std::isfinite(times[i]))) {
        throw DataError("{}: column '{}from_timestamp': episode {} begins at {} s", path_, begin,
                        indices_[i], times[i]);
      }
      Add(path_, indices_[i],
          VideoPlace{.file = {.chunk = chunks[i], .file = files[i]}, .from_timestamp = times[i]},
          places);
    }
  }

 private:
  std::vector<std::int64_t> Integers(const std::string& column) {
    return file_.ReadNumbers<std::int64_t>(column);
  }

  std::vector<std::optional<std::int64_t>> FirstRows(const std::vector<std::int64_t>& lengths) {
    constexpr const char* kFrom = "dataset_from_index";
    constexpr const char* kTo = "dataset_to_index";
    std::vector<std::optional<std::int64_t>> first_rows(indices_.size());
    if (!file_.HasColumn(kFrom) || !file_.HasColumn(kTo)) return first_rows;
    const auto begins = Integers(kFrom);
    const auto ends = Integers(kTo);
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      const bool has_length =
          begins[i] >= 0 && ends[i] >= begins[i] && ends[i] - begins[i] == lengths[i];
      if (!has_length) {
        throw DataError("{}: episode {} has {} frames, but its rows are {} ({}) to {} ({})", path_,
                        indices_[i], lengths[i], begins[i], kFrom, ends[i], kTo);
      }
      first_rows[i] = begins[i];
    }
    return first_rows;
  }

  std::string path_;
  ParquetFile file_;
  std::vector<std::int64_t> indices_;  // of its episodes
};

void RequireRowsInOrder(const std::string& where, const std::vector<Episode>& episodes) {
  std::int64_t n_rows = 0;
  for (std::size_t i = 0; i < episodes.size(); ++i) {
    const std::int64_t first = episodes[i].first_row.value_or(n_rows);
    if (first != n_rows) {
      throw DataError(
          "{}: episode {}, frame 0: is in row {} (dataset_from_index), but the episodes before it "
          "{}",
          where, i, first,
          first < n_rows ? fmt::format("reach to row {}, so they overlap", n_rows - 1)
                         : fmt::format("end at row {}", n_rows - 1));
    }
    n_rows += episodes[i].length;
  }
}

// The beginning of an episode in a video, and its index.
using Begin = std::pair<double, std::size_t>;

void RequireSeparateVideos(const std::string& where, const Metadata& metadata,
                           const std::string& camera, const std::vector<VideoPlace>& places) {
  std::map<FileNumber, std::vector<Begin>> by_file;
  for (std::size_t i = 0; i < places.size(); ++i) {
    by_file[places[i].file].emplace_back(places[i].from_timestamp, i);
  }
  for (auto& [file, begins] : by_file) {
    std::ranges::sort(begins);
    for (std::size_t i = 1; i < begins.size(); ++i) {
      const auto& [begin, earlier] = begins[i - 1];
      const auto& [next, later] = begins[i];
      const auto length = static_cast<double>(metadata.episodes[earlier].length);
      if (next >= begin + (length - 0.5) / metadata.fps) continue;  // half a frame for rounding
      throw DataError(
          "{}: episode {}, frame 0 of '{}': begins at {:.6f} s of {}, where episode {} has its "
          "frame {}: the episodes overlap",
          where, later, camera, next, metadata.VideoFile(camera, file).string(), earlier,
          std::llround((next - begin) * metadata.fps));
    }
  }
}

void ReadEpisodesOfTable(std::int64_t max_bytes, Metadata* metadata) {
  ByIndex<Episode> episodes;
  std::map<std::string, ByIndex<VideoPlace>> videos;
  for (const auto& [name, feature] : metadata->features) {
    if (feature.kind == Feature::Kind::kVideo) videos[name];
  }
  for (const fs::path& file : EpisodeFiles(metadata->root)) {
    EpisodeTable table(file, max_bytes);
    table.ReadEpisodes(&episodes);
    for (auto& [camera, places] : videos) table.ReadVideos(camera, &places);
  }
  const std::string where = (metadata->root / "meta/episodes").string();
  metadata->episodes = InOrder(where, std::move(episodes));
  for (auto& [camera, places] : videos) {
    metadata->videos[camera] = InOrder(where, std::move(places));
  }
  // LeRobot would read frames of another episode where they overlap
  RequireRowsInOrder(where, metadata->episodes);
  for (const auto& [camera, places] : metadata->videos) {
    RequireSeparateVideos(where, *metadata, camera, places);
  }
}

void RequireTotals(const JsonView& info, const Metadata& metadata) {
  std::int64_t n_frames = 0;
  for (const Episode& episode : metadata.episodes) n_frames += episode.length;
  const auto require = [&info](const char* key, std::int64_t found) {
    const auto expected = info.Get<std::int64_t>(key);
    if (expected == found) return;
    info.At(key).Fail(
        "is {}, but the table of episodes has {}; the recording was interrupted, or files of "
        "another dataset are in the folder",
        expected, found);
  };
  require("total_episodes", static_cast<std::int64_t>(metadata.episodes.size()));
  require("total_frames", n_frames);
  if (n_frames == 0) info.Fail("the dataset has no frames");
}

}  // namespace

void ReadJsonLines(const fs::path& path, std::int64_t max_bytes,
                   const std::function<void(const JsonView&)>& use) {
  core::LineReader lines(path, kMaxLinesBytes,
                         std::min(kMaxJsonBytes, static_cast<std::size_t>(max_bytes)));
  std::string line;
  for (std::int64_t number = 1; lines.Next(&line); ++number) {
    if (line.empty()) continue;
    const std::string what = fmt::format("{}:{}", path.string(), number);
    const Json entry = core::ParseJson(line, what);
    use(JsonView(entry, what));
  }
}

std::vector<fs::path> EpisodeFiles(const fs::path& root) {
  const fs::path folder = root / "meta/episodes";
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".parquet") files.push_back(it->path());
    if (files.size() > kMaxEpisodeFiles) break;
  }
  if (error || files.empty()) {
    throw DataError("{}: expected the table of episodes (chunk-000/file-000.parquet)",
                    folder.string());
  }
  std::ranges::sort(files);
  return files;
}

fs::path Metadata::DataFile(const FileNumber& number) const {
  return root / data_path.Format(number, "");
}

fs::path Metadata::VideoFile(const std::string& camera, const FileNumber& number) const {
  return root / video_path.Format(number, camera);
}

bool IsOwnColumn(std::string_view feature) {
  return feature == "timestamp" ||
         std::ranges::find(kIntegerColumns, feature) != kIntegerColumns.end();
}

Metadata ReadMetadata(const fs::path& root, std::int64_t max_bytes) {
  const fs::path path = root / kInfoFile;
  const std::string text = core::ReadTextFile(path, kMaxJsonBytes);
  const std::string what = path.string();
  const Json entry = core::ParseJson(text, what);
  const JsonView info(entry, what);

  Metadata metadata{.root = root, .version = ParseVersion(info)};
  metadata.fps = info.Get<double>("fps");
  if (!(metadata.fps >= reader::kMinFps && metadata.fps <= reader::kMaxFps)) {
    info.At("fps").Fail("expected a number from {} to {}, found {}", reader::kMinFps,
                        reader::kMaxFps, metadata.fps);
  }
  metadata.features = ParseFeatures(info, OrderedJson::parse(text));
  metadata.data_path = PathTemplate(info.Get<std::string>("data_path"), what + ": data_path");
  if (info.Has("video_path")) {
    metadata.video_path = PathTemplate(info.Get<std::string>("video_path"), what + ": video_path");
  }
  if (metadata.version == Version::kV30) {
    metadata.tasks = ReadTasksOfTable(root, max_bytes);
    ReadEpisodesOfTable(max_bytes, &metadata);
  } else {
    metadata.tasks = ReadTasksOfLines(root, max_bytes);
    ReadEpisodesOfLines(info, max_bytes, &metadata);
  }
  RequireTotals(info, metadata);
  return metadata;
}

std::optional<Config> ReadKeySources(const fs::path& root) {
  const fs::path file = root / kKeySourcesFile;
  if (!fs::exists(file)) return std::nullopt;
  const Json noted = core::ReadJsonFile(file, kMaxJsonBytes);
  const std::string name = file.string();
  return Config::FromJson(JsonView(noted, name).At("keys").json().dump(), name);
}

PathTemplate::PathTemplate(std::string_view text, const std::string& where) : text_(text) {
  const auto refuse = [&](std::string_view what) {
    throw DataError("{}: expected a path with fields such as {{chunk_index:03d}}, found {}: {}",
                    where, core::ShortDump(text_), what);
  };
  if (text.size() > kMaxPath) refuse("it is too long");
  for (std::size_t open = text.find('{'); open != std::string_view::npos; open = text.find('{')) {
    text.remove_prefix(open + 1);
    const std::size_t close = text.find('}');
    if (close == std::string_view::npos) refuse("a brace is not closed");
    const std::string_view field = text.substr(0, close);
    text.remove_prefix(close + 1);
    const std::size_t colon = std::min(field.find(':'), field.size());
    if (std::ranges::find(kFields, field.substr(0, colon)) == kFields.end()) {
      refuse("a field has an unknown name");
    }
    if (colon == field.size()) continue;
    const std::string_view format = field.substr(colon + 1);
    if (!format.ends_with('d') || !IsDigits(format.substr(0, format.size() - 1))) {
      refuse("a format is not {:03d}");
    }
  }
  try {
    Format({}, "camera");
  } catch (const std::exception&) {
    refuse("it must be a relative path that stays in the dataset's folder");
  }
}

// The fields have the syntax of Python, which is that of fmt.
std::string PathTemplate::Format(const FileNumber& number, const std::string& camera) const {
  const std::string path =
      fmt::format(fmt::runtime(text_), fmt::arg("chunk_index", number.chunk),
                  fmt::arg("episode_chunk", number.chunk), fmt::arg("file_index", number.file),
                  fmt::arg("episode_index", number.file), fmt::arg("video_key", camera));
  zarr::RequireSafeName(path);
  return path;
}

}  // namespace dp_bench::lerobot
