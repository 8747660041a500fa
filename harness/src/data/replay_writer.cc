// One Commit writes, in this order: chunks, the .zarray of every key, .zattrs, and last
// meta/episode_ends, whose .zarray holds the number of episodes. Readers trust only that number.
#include "data/replay_writer.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <utility>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/copy_bytes.h"
#include "core/errors.h"
#include "core/json.h"
#include "data/zarr/chunk_codec.h"
#include "data/zarr/metadata.h"
#include "dp_bench/build_id.h"

namespace dp_bench::data {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kOrigin = "origin";

// names in ReplayEpisode::ToArrays
constexpr const char* kBytesOf = "bytes.";
constexpr const char* kSizesOf = "sizes.";

zarr::ZarrLayout LayoutOf(const KeySpec& key) {
  const DType wanted = key.type == KeyType::kRgb     ? DType::kUInt8
                       : key.type == KeyType::kDepth ? DType::kUInt16
                                                     : DType::kFloat32;
  const bool is_name = !key.name.empty() && key.name.front() != '.' &&
                       key.name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  if (key.dtype != wanted || !is_name) {
    throw ShapeError(
        "the key '{}' ({} {}) cannot be stored in a replay buffer: low_dim keys are float32, rgb "
        "keys uint8, depth keys uint16 [mm], and a name has no '/' and no '.' in front. To copy a "
        "dataset without it, name the other keys: --keys action,...",
        key.name, Name(key.type), Name(key.dtype));
  }
  return {.dtype = key.dtype,
          .row_shape = key.StorageShape(),
          .chunk_rows = zarr::RowsPerChunk(key.ByteSize())};
}

zarr::ZarrLayout EpisodeEndsLayout() {
  return {.dtype = DType::kInt64,
          .row_shape = {},
          .chunk_rows = zarr::RowsPerChunk(sizeof(std::int64_t))};
}

// null if the file is none of ours
json ReadAttributes(const fs::path& file) {
  if (!fs::is_regular_file(file)) return nullptr;
  json attributes = core::TryParseJson(core::ReadTextFile(file, zarr::kMaxAttributeBytes));
  if (!attributes.is_object() || !attributes.contains(kOrigin)) return nullptr;
  return attributes;
}

// Text from plugins may hold bytes that are not UTF-8: those are replaced.
void WriteAttributes(const fs::path& folder, const json& attributes) {
  core::WriteFileAtomically(folder / zarr::kAttributesFile,
                            attributes.dump(2, ' ', false, json::error_handler_t::replace));
}

// Names the value of the origin that differs.
[[noreturn]] void ThrowOtherOrigin(const fs::path& folder, const json& found, const json& wanted) {
  const auto path = json::diff(found, wanted).at(0).at("path").get<std::string>();
  const json::json_pointer place(path);
  const auto show = [&place](const json& origin) {
    return origin.contains(place) ? origin.at(place).dump() : "absent";
  };
  throw UsageError(
      "{} holds episodes of another origin: {}{} is {} there, {} here. Give another output folder, "
      "or remove this one.",
      folder.string(), kOrigin, path, show(found), show(wanted));
}

constexpr std::chrono::seconds kCommitInterval{2};

// Returns `path`, or refuses it.
const std::filesystem::path& RequireUnfinished(const std::filesystem::path& path) {
  const nlohmann::json attributes = ReadReplayAttributes(path);
  if (attributes.is_object() && attributes.value(zarr::kCompleteAttribute, false)) {
    throw UsageError("{} exists; give another output folder, or remove this one", path.string());
  }
  return path;
}

}  // namespace

std::vector<KeySpec> RecordedKeys(const EnvSpec& env) {
  std::vector<KeySpec> keys = env.shape_meta.obs;
  keys.push_back(env.shape_meta.action);
  return keys;
}

ReplayEpisode::ReplayEpisode(std::span<const KeySpec> keys) {
  for (const KeySpec& key : keys) {
    keys_.push_back({.name = key.name, .layout = LayoutOf(key), .rows = {}, .chunks = {}});
  }
}

void ReplayEpisode::Append(std::span<const std::span<const std::byte>> values) {
  DPB_ASSERT(values.size() == keys_.size());
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    Key& key = keys_[i];
    DPB_ASSERT(values[i].size() == key.layout.RowBytes());
    if (key.layout.chunk_rows == 1) {
      key.chunks.push_back(zarr::EncodeChunk(key.layout.dtype, values[i]));
    } else {
      key.rows.insert(key.rows.end(), values[i].begin(), values[i].end());
    }
  }
  ++n_steps_;
}

ArrayMap ReplayEpisode::ToArrays() const {
  ArrayMap arrays;
  const auto add = [&arrays](const std::string& name, DType dtype, std::size_t n) -> Array& {
    return arrays.emplace(name, Array(dtype, {static_cast<std::int64_t>(n)})).first->second;
  };
  for (const Key& key : keys_) {
    if (key.layout.chunk_rows > 1) {
      core::CopyBytes(key.rows, add(kBytesOf + key.name, DType::kUInt8, key.rows.size()).bytes());
      continue;
    }
    Array& sizes = add(kSizesOf + key.name, DType::kInt64, key.chunks.size());
    std::ranges::transform(key.chunks, sizes.as<std::int64_t>().begin(),
                           [](const auto& chunk) { return std::ssize(chunk); });
    const std::span<const std::int64_t> all = sizes.as<std::int64_t>();
    const auto n_bytes = std::accumulate(all.begin(), all.end(), std::int64_t{0});
    std::span<std::byte> out =
        add(kBytesOf + key.name, DType::kUInt8, static_cast<std::size_t>(n_bytes)).bytes();
    for (const std::vector<std::byte>& chunk : key.chunks) {
      core::CopyBytes(chunk, out);
      out = out.subspan(chunk.size());
    }
  }
  return arrays;
}

ReplayEpisode ReplayEpisode::FromArrays(std::span<const KeySpec> keys, const ArrayMap& arrays,
                                        const std::string& origin) {
  ReplayEpisode episode(keys);
  const auto find = [&](const std::string& name, DType dtype) -> const Array& {
    const auto found = arrays.find(name);
    if (found != arrays.end() && found->second.dtype() == dtype) return found->second;
    throw DataError("{}: expected an array '{}' of {}", origin, name, Name(dtype));
  };
  std::int64_t n_steps = -1;
  for (Key& key : episode.keys_) {
    std::span<const std::byte> bytes = find(kBytesOf + key.name, DType::kUInt8).bytes();
    if (key.layout.chunk_rows > 1) {
      key.rows.assign(bytes.begin(), bytes.end());
      episode.n_steps_ = static_cast<std::int64_t>(bytes.size() / key.layout.RowBytes());
      bytes = bytes.subspan(static_cast<std::size_t>(episode.n_steps_) * key.layout.RowBytes());
    } else {
      for (const std::int64_t size : find(kSizesOf + key.name, DType::kInt64).as<std::int64_t>()) {
        const auto n = static_cast<std::size_t>(size);
        if (size <= 0 || n > bytes.size()) break;
        key.chunks.emplace_back(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
        bytes = bytes.subspan(n);
      }
      episode.n_steps_ = std::ssize(key.chunks);
    }
    if (n_steps < 0) n_steps = episode.n_steps_;
    if (bytes.empty() && episode.n_steps_ == n_steps) continue;
    throw DataError("{}: the steps of '{}' are incomplete", origin, key.name);
  }
  return episode;
}

ReplayWriter::ReplayWriter(fs::path folder, std::vector<KeySpec> keys, const json& origin,
                           ChannelsByKey channels)
    : folder_(std::move(folder)),
      keys_(std::move(keys)),
      channels_(std::move(channels)),
      origin_(origin) {
  for (const KeySpec& key : keys_) LayoutOf(key);  // refuses a key before the disk is changed
  try {
    fs::create_directories(folder_);
    lock_ = std::make_unique<core::FolderLock>(folder_);
    Identify();
    core::RemoveTemporaryFiles(folder_);
    CreateGroups();
    OpenArrays();
  } catch (const fs::filesystem_error& error) {
    throw IoError("cannot prepare the dataset '{}': {}", folder_.string(), error.what());
  }
}

ReplayWriter::~ReplayWriter() = default;

std::int64_t ReplayWriter::n_episodes() const { return episode_ends_->n_rows(); }

// Refuses a folder that this class did not write, before anything is changed.
void ReplayWriter::Identify() {
  attributes_ = ReadReplayAttributes(folder_);
  if (!attributes_.is_null()) {
    if (attributes_[kOrigin] != origin_) ThrowOtherOrigin(folder_, attributes_[kOrigin], origin_);
    return;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (core::IsTemporaryName(name) || name == core::kLockFile) continue;
    throw UsageError(
        "{} exists and is not a dataset that dp_bench collected; give another output folder",
        folder_.string());
  }
  attributes_ = {{kOrigin, origin_}};
}

// Writes .zattrs first, so that a folder with any content has its origin.
void ReplayWriter::CreateGroups() {
  attributes_[zarr::kCompleteAttribute] = false;
  WriteAttributes(folder_, attributes_);
  const std::string group = json{{"zarr_format", 2}}.dump(4);
  for (const fs::path& path :
       {folder_, folder_ / zarr::kDataFolder, (folder_ / zarr::kEpisodeEndsArray).parent_path()}) {
    fs::create_directory(path);
    if (!fs::exists(path / ".zgroup")) core::WriteFileAtomically(path / ".zgroup", group);
  }
}

void ReplayWriter::OpenArrays() {
  const fs::path ends = folder_ / zarr::kEpisodeEndsArray;
  const std::int64_t n_episodes = zarr::ZarrArrayWriter::RowsOnDisk(ends);
  episode_ends_ = std::make_unique<zarr::ZarrArrayWriter>(ends, EpisodeEndsLayout(), n_episodes);
  if (n_episodes > 0) {
    const std::vector<std::byte> last = episode_ends_->ReadRow(n_episodes - 1);
    std::memcpy(&n_steps_, last.data(), sizeof(n_steps_));
  }
  for (const KeySpec& key : keys_) {
    const fs::path array = folder_ / zarr::kDataFolder / key.name;
    arrays_.emplace_back(array, LayoutOf(key), n_steps_);
    json attributes = {{zarr::kTypeAttribute, Name(key.type)}};  // numbers can look like images
    const auto channels = channels_.find(key.name);
    if (channels != channels_.end()) attributes[zarr::kChannelsAttribute] = channels->second;
    core::WriteFileAtomically(array / zarr::kAttributesFile,
                              attributes.dump(4, ' ', false, json::error_handler_t::replace));
  }
}

void ReplayWriter::Append(const ReplayEpisode& episode) {
  DPB_ASSERT(episode.n_steps() > 0 && episode.keys_.size() == arrays_.size());
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const ReplayEpisode::Key& key = episode.keys_[i];
    for (const std::vector<std::byte>& chunk : key.chunks) arrays_[i].AppendEncoded(chunk);
    has_unsynced_chunks_ = has_unsynced_chunks_ || !key.chunks.empty();
    arrays_[i].Append(key.rows);
  }
  n_steps_ += episode.n_steps();
  episode_ends_->Append(std::as_bytes(std::span(&n_steps_, 1)));
}

void ReplayWriter::Commit(json attributes, bool is_complete) {
  if (has_unsynced_chunks_) lock_->SyncFileSystem();
  has_unsynced_chunks_ = false;
  for (zarr::ZarrArrayWriter& array : arrays_) array.Flush();
  attributes_ = std::move(attributes);
  attributes_[kOrigin] = origin_;
  attributes_[zarr::kCompleteAttribute] = false;
  WriteAttributes(folder_, attributes_);
  episode_ends_->Flush();
  if (!is_complete) return;
  attributes_[zarr::kCompleteAttribute] = true;
  WriteAttributes(folder_, attributes_);
}

json RolloutAttributes(double fps, std::int64_t n_steps, json episodes,
                       std::span<const SeedFailure> failures) {
  json failed = json::array();
  for (const SeedFailure& failure : failures) {
    failed.push_back({{"seed", failure.seed}, {"reason", failure.reason}});
  }
  return {{zarr::kFpsAttribute, fps},
          {"n_steps", n_steps},
          {zarr::kEpisodesAttribute, std::move(episodes)},
          {"failures", std::move(failed)},
          {"dp_bench", kVersion}};
}

json ReadReplayAttributes(const fs::path& folder) {
  return ReadAttributes(folder / zarr::kAttributesFile);
}

bool AreOfOneTask(const json& env, const json& other) {
  // plugins with environments of others name them by `id` or `entry`
  for (const char* place : {"/plugin", "/params/task", "/params/id", "/params/entry"}) {
    if (core::TextAt(env, place) != core::TextAt(other, place)) return false;
  }
  return true;
}

std::vector<std::uint64_t> SeedsOfEpisodes(const fs::path& dataset, const json& env) {
  json attributes = ReadReplayAttributes(dataset);
  if (attributes.is_null()) attributes = ReadAttributes(core::Beside(dataset, kAttributesBeside));
  const json origin = core::ValueAt(attributes, "/origin/env");
  const json seeds = core::ValueAt(attributes, "/episodes/seed");
  const bool is_known = seeds.is_array() && std::ranges::all_of(seeds, &json::is_number_unsigned);
  if (!is_known || !origin.is_object() || !AreOfOneTask(origin, env)) return {};
  return seeds.get<std::vector<std::uint64_t>>();
}

ReplayDatasetWriter::ReplayDatasetWriter(const std::filesystem::path& path,
                                         const std::string& source, const DatasetSpec& spec,
                                         ChannelsByKey channels, nlohmann::json episodes)
    : spec_(spec),
      path_(path),
      episodes_(std::move(episodes)),
      last_commit_(std::chrono::steady_clock::now()) {
  writer_.emplace(RequireUnfinished(path), spec.keys, nlohmann::json{{"source", source}},
                  std::move(channels));
  is_committed_ = writer_->n_episodes() > 0;
  const nlohmann::json& attributes = writer_->attributes();
  if (attributes.contains(zarr::kTasksAttribute)) {
    tasks_ = attributes[zarr::kTasksAttribute].get<std::vector<std::string>>();
  }
  // a commit that was cut off leaves more
  tasks_.resize(static_cast<std::size_t>(writer_->n_episodes()));
}

ReplayDatasetWriter::~ReplayDatasetWriter() {
  try {
    if (has_news_) Commit(/*is_complete=*/false);
  } catch (const std::exception& error) {
    core::LogWarning("{}: the last episodes were not kept: {}", path_.string(), error.what());
  }
  writer_.reset();
  if (is_committed_) return;
  try {
    core::RemoveAll(path_);
  } catch (const std::exception&) {  // the reader says what is missing
  }
}

void ReplayDatasetWriter::BeginEpisode(const EpisodeHead& head) {
  episode_.emplace(spec_.keys);
  head_ = head;
}

void ReplayDatasetWriter::Append(std::span<const std::span<const std::byte>> values) {
  episode_->Append(values);
  if (episode_->n_steps() < head_.n_steps) return;
  has_news_ = false;  // if this fails, chunks may lack rows of the episodes before
  writer_->Append(*episode_);
  has_news_ = true;
  tasks_.push_back(head_.task);
  episode_.reset();
  if (std::chrono::steady_clock::now() - last_commit_ < kCommitInterval) return;
  Commit(/*is_complete=*/false);
}

void ReplayDatasetWriter::Finish() {
  if (n_episodes() == 0) throw UsageError("the dataset would have no episode");
  Commit(/*is_complete=*/true);
}

void ReplayDatasetWriter::Commit(bool is_complete) {
  has_news_ = false;
  nlohmann::json attributes = nlohmann::json::object();
  if (spec_.fps > 0.0) attributes[zarr::kFpsAttribute] = spec_.fps;
  const bool has_task =
      std::ranges::any_of(tasks_, [](const std::string& task) { return !task.empty(); });
  if (has_task) attributes[zarr::kTasksAttribute] = tasks_;
  for (const auto& [property, values] : episodes_.items()) {
    const auto end = values.begin() + n_episodes();
    attributes[zarr::kEpisodesAttribute][property] = nlohmann::json(values.begin(), end);
  }
  writer_->Commit(attributes, is_complete);
  is_committed_ = true;
  last_commit_ = std::chrono::steady_clock::now();
}

}  // namespace dp_bench::data
