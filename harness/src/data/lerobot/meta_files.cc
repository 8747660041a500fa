#include "data/lerobot/meta_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/atomic_file.h"
#include "data/lerobot/parquet_file.h"
#include "dp_bench/error.h"
#include "media/video_encoder.h"
#include "media/video_joiner.h"

namespace dp_bench::lerobot {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ordered_json = nlohmann::ordered_json;

constexpr const char* kDataPathV30 = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet";
constexpr const char* kDataPathV21 =
    "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet";
constexpr const char* kVideoPathV30 =
    "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4";
constexpr const char* kVideoPathV21 =
    "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4";

// LeRobot expects integers where they are possible.
ordered_json IntegerIfWhole(double value) {
  return value == std::floor(value) ? ordered_json(static_cast<std::int64_t>(value))
                                    : ordered_json(value);
}

ordered_json ImageEntry(const WrittenFeature& feature, const char* dtype) {
  return {{"dtype", dtype},
          {"shape", {feature.height, feature.width, feature.n_channels()}},
          {"names", {"height", "width", "channels"}}};
}

ordered_json InfoOf(const WrittenFeature& feature) {
  if (!feature.entry.is_null()) return feature.entry;
  if (!feature.is_camera()) {
    return {{"dtype", "float32"},
            {"shape", {feature.n}},
            {"names",
             feature.channels.empty() ? ordered_json(nullptr) : ordered_json(feature.channels)}};
  }
  ordered_json info = ImageEntry(feature, "image");
  if (feature.type == KeyType::kDepth) {
    info["info"] = {{"is_depth_map", true}, {"depth_unit", "mm"}};
  }
  return info;
}

ordered_json FeaturesOf(std::span<const WrittenFeature> written) {
  ordered_json features = ordered_json::object();
  for (const WrittenFeature& feature : written) features[feature.name] = InfoOf(feature);
  const auto own = [](const char* dtype) {
    return ordered_json{{"dtype", dtype}, {"shape", {1}}, {"names", nullptr}};
  };
  features["timestamp"] = own("float32");
  for (const char* const name : kIntegerColumns) features[name] = own("int64");
  return features;
}

// The same for the package `datasets`, of numbers or texts with this entry in info.json.
ordered_json ColumnOf(const ordered_json& entry) {
  ordered_json value = {{"dtype", entry.at("dtype")}, {"_type", "Value"}};
  const auto shape = entry.at("shape").get<std::vector<std::int64_t>>();
  if (shape.empty() || (shape.size() == 1 && shape[0] == 1)) return value;
  if (shape.size() == 1) return {{"feature", value}, {"length", shape[0]}, {"_type", "Sequence"}};
  return {{"shape", shape},
          {"dtype", entry.at("dtype")},
          {"_type", fmt::format("Array{}D", shape.size())}};
}

ordered_json InfoOf(const WrittenDataset& dataset) {
  const bool is_v30 = dataset.version == Version::kV30;
  const auto n_episodes = std::ssize(dataset.episodes);
  std::int64_t n_frames = 0;
  for (const WrittenEpisode& episode : dataset.episodes) n_frames += episode.length;
  ordered_json info = {
      {"codebase_version", is_v30 ? "v3.0" : "v2.1"},
      {"robot_type", dataset.robot ? ordered_json(*dataset.robot) : ordered_json(nullptr)},
      {"total_episodes", n_episodes},
      {"total_frames", n_frames},
      {"total_tasks", dataset.Tasks().size()},
      {"chunks_size", kChunksSize}};
  if (is_v30) {
    info["data_files_size_in_mb"] = IntegerIfWhole(dataset.data_file_mb);
    info["video_files_size_in_mb"] = IntegerIfWhole(dataset.video_file_mb);
  } else {
    info["total_videos"] =
        n_episodes * std::ranges::count_if(dataset.features, &WrittenFeature::is_video);
    info["total_chunks"] = (n_episodes + kChunksSize - 1) / kChunksSize;
  }
  info["fps"] = IntegerIfWhole(dataset.fps);
  info["splits"] = {{"train", fmt::format("0:{}", n_episodes)}};
  info["data_path"] = is_v30 ? kDataPathV30 : kDataPathV21;
  if (std::ranges::any_of(dataset.features, &WrittenFeature::is_video)) {
    info["video_path"] = is_v30 ? kVideoPathV30 : kVideoPathV21;
  } else {
    info["video_path"] = nullptr;
  }
  info["features"] = FeaturesOf(dataset.features);
  return info;
}

template <class Json>
std::string Line(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool IsCamera(const WrittenDataset& dataset, const std::string& feature) {
  return std::ranges::any_of(dataset.features, [&](const WrittenFeature& written) {
    return written.name == feature && written.is_camera();
  });
}

json StatisticsOf(const WrittenDataset& dataset,
                  const std::map<std::string, FeatureStatistics>& statistics) {
  json result;
  for (const auto& [feature, own] : statistics) {
    result[feature] = ToJson(own, IsCamera(dataset, feature));
  }
  return result;
}

std::map<std::string, FeatureStatistics> PooledStatistics(const WrittenDataset& dataset) {
  std::map<std::string, FeatureStatistics> pooled;
  for (const auto& [feature, unused] : dataset.episodes[0].statistics) {
    std::vector<FeatureStatistics> of_episodes;
    for (const WrittenEpisode& episode : dataset.episodes) {
      of_episodes.push_back(episode.statistics.at(feature));
    }
    pooled[feature] = Pool(of_episodes);
  }
  return pooled;
}

void WriteTasksV30(const fs::path& path, const std::vector<std::string>& tasks) {
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < tasks.size(); ++i) indices.push_back(static_cast<std::int64_t>(i));
  ParquetTable table;
  table.AddIntegers("task_index", indices);
  table.AddTexts("task", tasks);
  const auto column = [](const char* name, const char* pandas_type, const char* numpy_type) {
    return json{{"name", name},
                {"field_name", name},
                {"pandas_type", pandas_type},
                {"numpy_type", numpy_type},
                {"metadata", nullptr}};
  };
  // pandas reads the index from here
  table.SetMetadata(
      "pandas",
      json{{"index_columns", {"task"}},
           {"column_indexes", json::array()},
           {"columns",
            {column("task_index", "int64", "int64"), column("task", "unicode", "object")}},
           {"attributes", json::object()}}
          .dump());
  table.Write(path);
}

void AddStatistics(const WrittenDataset& dataset, const std::string& feature, ParquetTable* table) {
  const bool is_camera = IsCamera(dataset, feature);
  const std::string prefix = "stats/" + feature + "/";
  const std::size_t n = dataset.episodes[0].statistics.at(feature).lists[kMean].size();
  for (std::size_t i = 0; i < kStatisticNames.size(); ++i) {
    std::vector<double> values;
    for (const WrittenEpisode& episode : dataset.episodes) {
      const std::vector<double>& list = episode.statistics.at(feature).lists[i];
      values.insert(values.end(), list.begin(), list.end());
    }
    table->AddDoubleLists(prefix + kStatisticNames[i], values, n, is_camera ? 2 : 0);
  }
  std::vector<std::int64_t> counts;
  for (const WrittenEpisode& episode : dataset.episodes) {
    counts.push_back(episode.statistics.at(feature).count);
  }
  table->AddIntegerLists(prefix + "count", counts);
}

void AddVideos(const WrittenDataset& dataset, const std::string& camera, ParquetTable* table) {
  std::map<std::string, std::vector<std::int64_t>> numbers;
  std::map<std::string, std::vector<double>> times;
  for (const WrittenEpisode& episode : dataset.episodes) {
    const VideoPlace& video = episode.videos.at(camera);
    numbers["chunk_index"].push_back(video.file.chunk);
    numbers["file_index"].push_back(video.file.file);
    times["from_timestamp"].push_back(video.from_timestamp);
    times["to_timestamp"].push_back(video.to_timestamp);
  }
  const std::string prefix = "videos/" + camera + "/";
  for (const auto& [name, values] : numbers) table->AddIntegers(prefix + name, values);
  for (const auto& [name, values] : times) table->AddDoubles(prefix + name, values);
}

void WriteEpisodesV30(const fs::path& path, const WrittenDataset& dataset) {
  std::map<std::string, std::vector<std::int64_t>> numbers;
  std::vector<std::vector<std::string>> tasks;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < dataset.episodes.size(); ++i) {
    const WrittenEpisode& episode = dataset.episodes[i];
    tasks.push_back({episode.task});
    numbers["episode_index"].push_back(static_cast<std::int64_t>(i));
    numbers["length"].push_back(episode.length);
    numbers["data/chunk_index"].push_back(episode.data.chunk);
    numbers["data/file_index"].push_back(episode.data.file);
    numbers["dataset_from_index"].push_back(begin);
    numbers["dataset_to_index"].push_back(begin += episode.length);
    numbers["meta/episodes/chunk_index"].push_back(0);
    numbers["meta/episodes/file_index"].push_back(0);
  }
  ParquetTable table;
  table.AddTextLists("tasks", tasks);
  for (const auto& [name, values] : numbers) table.AddIntegers(name, values);
  for (const WrittenFeature& feature : dataset.features) {
    if (feature.is_video) AddVideos(dataset, feature.name, &table);
  }
  for (const auto& [feature, unused] : dataset.episodes[0].statistics) {
    AddStatistics(dataset, feature, &table);
  }
  table.Write(path);
}

void WriteV30(const fs::path& meta, const WrittenDataset& dataset) {
  core::WriteNewFile(meta / "stats.json",
                     StatisticsOf(dataset, PooledStatistics(dataset)).dump(4) + "\n");
  WriteTasksV30(meta / "tasks.parquet", dataset.Tasks());
  const fs::path episodes = meta / "episodes" / "chunk-000" / "file-000.parquet";
  core::CreateFolders(episodes.parent_path());
  WriteEpisodesV30(episodes, dataset);
}

void WriteV21(const fs::path& meta, const WrittenDataset& dataset) {
  std::string tasks;
  const std::vector<std::string> texts = dataset.Tasks();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    tasks += Line(ordered_json{{"task_index", i}, {"task", texts[i]}});
  }
  std::string episodes;
  std::string statistics;
  for (std::size_t i = 0; i < dataset.episodes.size(); ++i) {
    const WrittenEpisode& episode = dataset.episodes[i];
    episodes += Line(
        ordered_json{{"episode_index", i}, {"tasks", {episode.task}}, {"length", episode.length}});
    statistics += Line(
        ordered_json{{"episode_index", i}, {"stats", StatisticsOf(dataset, episode.statistics)}});
  }
  core::WriteNewFile(meta / "tasks.jsonl", tasks);
  core::WriteNewFile(meta / "episodes.jsonl", episodes);
  core::WriteNewFile(meta / "episodes_stats.jsonl", statistics);
}

using FileOf = std::function<fs::path(std::int64_t)>;

// A new file of the data, or of a camera, in its folder.
fs::path NewFile(const fs::path& root, const char* path, const FileNumber& number,
                 const std::string& camera = "") {
  fs::path file = root / PathTemplate(path, "a new file").Format(number, camera);
  core::CreateFolders(file.parent_path());
  return file;
}

FileNumber NextFile(const FileNumber& number) {
  if (number.file + 1 < kChunksSize) return {.chunk = number.chunk, .file = number.file + 1};
  return {.chunk = number.chunk + 1, .file = 0};
}

// Version 3.0: as many episodes per file as fit.
void JoinTables(const fs::path& root, const FileOf& file_of, WrittenDataset* dataset) {
  FileNumber number;
  std::unique_ptr<ParquetJoiner> joiner;
  for (std::int64_t i = 0; i < std::ssize(dataset->episodes); ++i) {
    WrittenEpisode& episode = dataset->episodes[static_cast<std::size_t>(i)];
    if (joiner != nullptr && joiner->n_rows() > 0) {
      const auto n_bytes = static_cast<double>(joiner->n_bytes());
      const double per_frame = n_bytes / static_cast<double>(joiner->n_rows());
      if (n_bytes + per_frame * static_cast<double>(episode.length) >=
          dataset->data_file_mb * kBytesPerMb) {
        joiner->Finish();
        joiner.reset();
        number = NextFile(number);
      }
    }
    if (joiner == nullptr) {
      joiner = std::make_unique<ParquetJoiner>(NewFile(root, kDataPathV30, number), file_of(i));
    }
    joiner->Append(file_of(i));
    episode.data = number;
  }
  joiner->Finish();
}

// Version 2.1: a file per episode.
void CopyFiles(const fs::path& root, const char* path, const std::string& camera,
               const FileOf& file_of, std::int64_t n_episodes) {
  for (std::int64_t i = 0; i < n_episodes; ++i) {
    fs::copy_file(file_of(i), NewFile(root, path, {.chunk = i / kChunksSize, .file = i}, camera));
  }
}

// Version 3.0: as many episodes per file as fit, which have the same settings of the encoder.
void JoinVideos(const fs::path& root, const std::string& camera, const FileOf& file_of,
                WrittenDataset* dataset) {
  FileNumber number;
  std::unique_ptr<media::VideoJoiner> joiner;
  for (std::int64_t i = 0; i < std::ssize(dataset->episodes); ++i) {
    WrittenEpisode& episode = dataset->episodes[static_cast<std::size_t>(i)];
    const media::VideoPart part = {
        .file = file_of(i), .from_time = 0.0, .n_frames = episode.length};
    if (joiner != nullptr) {
      const auto n_bytes =
          static_cast<double>(joiner->n_bytes()) + static_cast<double>(fs::file_size(part.file));
      const bool is_full = n_bytes >= dataset->video_file_mb * kBytesPerMb;
      if (is_full || !joiner->TryAppend(part)) {
        joiner->Finish();
        joiner.reset();
        number = NextFile(number);
      }
    }
    if (joiner == nullptr) {
      joiner = std::make_unique<media::VideoJoiner>(NewFile(root, kVideoPathV30, number, camera),
                                                    dataset->fps);
      const bool is_appended = joiner->TryAppend(part);
      DPB_ASSERT(is_appended);
    }
    const std::int64_t end = joiner->n_frames();
    episode.videos[camera] = {
        .file = number,
        .from_timestamp = static_cast<double>(end - episode.length) / dataset->fps,
        .to_timestamp = static_cast<double>(end) / dataset->fps};
  }
  joiner->Finish();
}

}  // namespace

std::vector<std::string> WrittenDataset::Tasks() const {
  std::vector<std::string> tasks;
  for (const WrittenEpisode& episode : episodes) {
    if (std::ranges::find(tasks, episode.task) == tasks.end()) tasks.push_back(episode.task);
  }
  return tasks;
}

ordered_json VideoEntry(const WrittenFeature& feature, const media::VideoOptions& options,
                        const ordered_json& preset) {
  ordered_json entry = ImageEntry(feature, "video");
  entry["info"] = {{"video.height", feature.height},
                   {"video.width", feature.width},
                   {"video.codec", media::Name(options.codec)},
                   {"video.pix_fmt", "yuv420p"},
                   {"video.fps", IntegerIfWhole(options.fps)},
                   {"video.channels", feature.n_channels()},
                   {"has_audio", false},
                   {"video.g", options.key_frame_every.value()},
                   {"video.crf", options.crf},
                   {"video.preset", preset},
                   {"is_depth_map", false}};
  return entry;
}

std::string DescribeColumns(std::span<const WrittenFeature> features) {
  ordered_json columns = ordered_json::object();
  const ordered_json entries = FeaturesOf(features);
  for (const auto& [name, entry] : entries.items()) {
    if (entry.at("dtype") == "video") continue;  // no column
    columns[name] =
        entry.at("dtype") == "image" ? ordered_json{{"_type", "Image"}} : ColumnOf(entry);
  }
  return ordered_json{{"info", {{"features", columns}}}}.dump();
}

void WriteDataFiles(const fs::path& root, const FileOf& file_of, WrittenDataset* dataset) {
  if (dataset->version == Version::kV30) return JoinTables(root, file_of, dataset);
  CopyFiles(root, kDataPathV21, "", file_of, std::ssize(dataset->episodes));
}

void WriteVideoFiles(const fs::path& root, const std::string& camera, const FileOf& file_of,
                     WrittenDataset* dataset) {
  if (dataset->version == Version::kV30) return JoinVideos(root, camera, file_of, dataset);
  CopyFiles(root, kVideoPathV21, camera, file_of, std::ssize(dataset->episodes));
}

void WriteMeta(const fs::path& root, const WrittenDataset& dataset) {
  DPB_ASSERT(!dataset.episodes.empty());
  const fs::path meta = root / "meta";
  core::CreateFolders(meta);
  core::WriteNewFile(meta / "info.json",
                     InfoOf(dataset).dump(4, ' ', false, json::error_handler_t::replace) + "\n");
  if (dataset.version == Version::kV30) {
    WriteV30(meta, dataset);
  } else {
    WriteV21(meta, dataset);
  }
}

}  // namespace dp_bench::lerobot
