#include "data/hdf5/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/library_lock.h"
#include "data/hdf5/demonstrations.h"
#include "dp_bench/config_keys.h"

namespace dp_bench::hdf5 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;  // per key
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr const char* kAction = "action";
constexpr const char* kEpisodeGroup = "demo";  // in the file of an episode, of robomimic's layout

// robomimic has these beside the observations.
const std::set<std::string> kOutcomes = {"rewards", "dones", "states"};

void Check(bool is_done, const fs::path& path, const char* what) {
  if (is_done) return;
  throw IoError("{}: cannot {}: {}", path.string(), what, LibraryMessage());
}

void WriteAttribute(hid_t object, const char* name, hid_t type, const void* value) {
  const Handle space(H5Screate(H5S_SCALAR), &H5Sclose);
  const Handle attribute(H5Acreate2(object, name, type, space.id(), H5P_DEFAULT, H5P_DEFAULT),
                         &H5Aclose);
  if (H5Awrite(attribute.id(), type, value) >= 0) return;
  throw IoError("cannot write the attribute '{}' of an HDF5 file: {}", name, LibraryMessage());
}

void WriteNumber(hid_t object, const char* name, std::int64_t value) {
  WriteAttribute(object, name, H5T_NATIVE_INT64, &value);
}

void WriteText(hid_t object, const char* name, const std::string& text) {
  const Handle type(H5Tcopy(H5T_C_S1), &H5Tclose);
  H5Tset_size(type.id(), H5T_VARIABLE);  // h5py gives it as str
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  const char* const value = text.c_str();
  WriteAttribute(object, name, type.id(), &value);
}

// What robomimic reads of an env; the rate is all that a dataset knows.
std::string EnvArguments(double fps, const std::string& source) {
  json arguments = {{"env_name", source}, {"type", 2}, {"env_kwargs", json::object()}};
  json& rate = arguments["env_kwargs"]["control_freq"];
  rate = fps;
  if (fps == std::floor(fps)) rate = static_cast<std::int64_t>(fps);
  if (fps <= 0.0) arguments["env_kwargs"].erase("control_freq");
  return arguments.dump(-1, ' ', false, json::error_handler_t::replace);
}

void RequireWritable(const KeySpec& key, const std::string& array) {
  const bool is_name = !array.empty() && array != "." && array != ".." &&
                       array.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  if (is_name) return;
  throw ShapeError(
      "the key '{}' cannot be written as '{}': the name of an array in an HDF5 file has no '/'; "
      "give another with --param names={{\"{}\": \"...\"}}",
      key.name, array, key.name);
}

std::int64_t ChunkRows(const KeySpec& key, std::int64_t n_steps) {
  const auto rows = static_cast<std::int64_t>(kChunkBytes / key.ByteSize());
  return std::clamp<std::int64_t>(key.is_image() ? 1 : rows, 1, n_steps);
}

}  // namespace

Hdf5WriterConfig Hdf5WriterConfig::FromConfig(const Config& params) {
  Hdf5WriterConfig config{
      .path = core::Beside(
          params.Require<std::string>("path", "the file to write, or with layout act the folder"),
          ""),
      .source = params.Require<std::string>("source", "where the episodes come from"),
      .names = {}};
  const ConfigKeys keys(params);
  keys.Choice("layout", &config.is_act, {{"robomimic", false}, {"act", true}},
              "robomimic: all episodes in one file; act: a folder with a file per episode, as ACT "
              "and ALOHA have them");
  keys("gzip", &config.gzip, 0, 9, "compression; 0 for none");
  const Config names = params.Sub("names",
                                  "the name of the array of a key, such as {\"agent_pos\": "
                                  "\"qpos\"}; by default that of the key");
  for (const std::string& key : names.Keys()) {
    config.names[key] = names.Require<std::string>(key, "the name in the file");
  }
  const Config channels = params.Sub(
      "channels", "the names of the numbers of a key, such as {\"action\": [\"x\", \"y\"]}");
  for (const std::string& key : channels.Keys()) {
    config.channels[key] = channels.Require<std::vector<std::string>>(key, "the names, in order");
  }
  return config;
}

std::unique_ptr<DatasetWriter> Hdf5Writer::Create(const Config& params, const DatasetSpec& spec) {
  Hdf5WriterConfig config = Hdf5WriterConfig::FromConfig(params);
  params.RejectUnread();  // before a folder is created
  return std::make_unique<Hdf5Writer>(std::move(config), spec);
}

Hdf5Writer::Hdf5Writer(Hdf5WriterConfig config, const DatasetSpec& spec)
    : config_(std::move(config)), spec_(spec) {
  std::set<std::string> arrays;
  for (const KeySpec& key : spec_.keys) {
    tracks_.push_back({.array = ArrayOf(key), .dataset = {}, .rows = {}});
    if (arrays.insert(tracks_.back().array).second) continue;
    throw ConfigError("two keys would be written as '{}'", tracks_.back().array);
  }
  for (const auto& [key, name] : config_.names) {
    if (std::ranges::find(spec_.keys, key, &KeySpec::name) != spec_.keys.end()) continue;
    throw ConfigError("names: there is no key '{}'", key);
  }
  unfinished_ =
      std::make_unique<reader::UnfinishedDataset>(config_.path, config_.is_act, Identity());
  core::CreateFolders(EpisodeFile(0).parent_path());
  while (fs::exists(EpisodeFile(n_episodes_))) ++n_episodes_;
}

Hdf5Writer::~Hdf5Writer() { CloseEpisode(); }

// Where the key is in an episode.
std::string Hdf5Writer::ArrayOf(const KeySpec& key) const {
  if (key.name == kAction) return config_.is_act ? "action" : "actions";
  const auto renamed = config_.names.find(key.name);
  const std::string& name = renamed == config_.names.end() ? key.name : renamed->second;
  RequireWritable(key, name);
  if (!config_.is_act) return kOutcomes.contains(name) ? name : "obs/" + name;
  return (key.type == KeyType::kRgb ? "observations/images/" : "observations/") + name;
}

std::vector<std::string> Hdf5Writer::Notes() const {
  std::vector<std::string> notes = {config_.is_act ? "ACT's layout, a file per episode"
                                                   : "robomimic's layout"};
  notes[0] += config_.gzip > 0 ? fmt::format(", compressed with gzip {}", config_.gzip)
                               : ", not compressed";
  notes[0] += "; texts of tasks are left out";
  for (const char* const name : {"qpos", "qvel"}) {
    const std::string array = std::string("observations/") + name;
    if (!config_.is_act || std::ranges::find(tracks_, array, &Track::array) != tracks_.end()) {
      continue;
    }
    notes.push_back(
        fmt::format("ACT's own programs read {}, which no key has; name one with --param "
                    "names={{\"<key>\": \"{}\"}}",
                    array, name));
  }
  return notes;
}

// What the files of episodes depend on.
json Hdf5Writer::Identity() const {
  json keys = json::object();
  for (std::size_t i = 0; i < spec_.keys.size(); ++i) {
    const KeySpec& key = spec_.keys[i];
    keys[key.name] = {{"array", tracks_[i].array},
                      {"type", Name(key.type)},
                      {"dtype", Name(key.dtype)},
                      {"shape", key.shape}};
    const auto channels = config_.channels.find(key.name);
    if (channels != config_.channels.end()) keys[key.name]["channels"] = channels->second;
  }
  return {{"source", config_.source},
          {"fps", spec_.fps},
          {"act", config_.is_act},
          {"gzip", config_.gzip},
          {"keys", std::move(keys)}};
}

fs::path Hdf5Writer::EpisodeFile(std::int64_t episode) const {
  return unfinished_->folder() / "episodes" / fmt::format("episode_{}.hdf5", episode);
}

Handle Hdf5Writer::CreateFile(const fs::path& path) const {
  PrepareLibrary();
  const Handle access = FileAccess();
  Handle file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.id()), &H5Fclose);
  Check(file.id() >= 0, path, "create the file");
  return file;
}

void Hdf5Writer::CreateArray(hid_t file, const KeySpec& key, Track* track) const {
  std::vector<hsize_t> sizes = {static_cast<hsize_t>(head_.n_steps)};
  const bool is_list_of_numbers = kOutcomes.contains(track->array) && key.NumElements() == 1;
  if (!is_list_of_numbers) {
    for (const std::int64_t size : key.StorageShape()) sizes.push_back(static_cast<hsize_t>(size));
  }
  const auto rank = static_cast<int>(sizes.size());
  const Handle space(H5Screate_simple(rank, sizes.data(), nullptr), &H5Sclose);
  const Handle layout(H5Pcreate(H5P_DATASET_CREATE), &H5Pclose);
  H5Pset_obj_track_times(layout.id(), false);  // the same data give the same bytes
  if (config_.gzip > 0) {
    sizes[0] = static_cast<hsize_t>(ChunkRows(key, head_.n_steps));
    H5Pset_chunk(layout.id(), rank, sizes.data());
    H5Pset_shuffle(layout.id());
    H5Pset_deflate(layout.id(), static_cast<unsigned>(config_.gzip));
  }
  const Handle links(H5Pcreate(H5P_LINK_CREATE), &H5Pclose);
  H5Pset_create_intermediate_group(links.id(), 1);
  const std::string path =
      config_.is_act ? track->array : std::string(kEpisodeGroup) + "/" + track->array;
  track->dataset = Handle(H5Dcreate2(file, path.c_str(), NativeType(key.dtype), space.id(),
                                     links.id(), layout.id(), H5P_DEFAULT),
                          &H5Dclose);
  Check(track->dataset.id() >= 0, temporary_, "create an array");
  WriteText(track->dataset.id(), kTypeAttribute, std::string(Name(key.type)));
  if (const auto channels = config_.channels.find(key.name); channels != config_.channels.end()) {
    WriteText(track->dataset.id(), kChannelsAttribute,
              json(channels->second).dump(-1, ' ', false, json::error_handler_t::replace));
  }
  track->n_written = 0;
  track->rows.clear();
}

void Hdf5Writer::BeginEpisode(const EpisodeHead& head) {
  CloseEpisode();
  head_ = head;
  n_appended_ = 0;
  temporary_ = core::TemporaryFor(EpisodeFile(n_episodes_));
  const std::lock_guard lock(core::Hdf5Lock());
  file_ = CreateFile(temporary_);
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    CreateArray(file_.id(), spec_.keys[i], &tracks_[i]);
  }
  if (!config_.is_act) {
    const Handle group(H5Gopen2(file_.id(), kEpisodeGroup, H5P_DEFAULT), &H5Gclose);
    return WriteNumber(group.id(), "num_samples", head_.n_steps);
  }
  const std::uint8_t no = 0;
  WriteAttribute(file_.id(), "sim", H5T_NATIVE_UINT8, &no);
  WriteAttribute(file_.id(), "compress", H5T_NATIVE_UINT8, &no);
  if (spec_.fps > 0.0) WriteAttribute(file_.id(), kRateAttribute, H5T_NATIVE_DOUBLE, &spec_.fps);
}

void Hdf5Writer::Append(std::span<const std::span<const std::byte>> values) {
  DPB_ASSERT(values.size() == tracks_.size());
  ++n_appended_;
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    Track& track = tracks_[i];
    track.rows.insert(track.rows.end(), values[i].begin(), values[i].end());
    if (track.rows.size() < kBufferBytes && n_appended_ < head_.n_steps) continue;
    WriteRows(spec_.keys[i], &track);
  }
  if (n_appended_ == head_.n_steps) EndEpisode();
}

void Hdf5Writer::WriteRows(const KeySpec& key, Track* track) const {
  const std::lock_guard lock(core::Hdf5Lock());
  const Handle space(H5Dget_space(track->dataset.id()), &H5Sclose);
  std::vector<hsize_t> count(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.id())));
  H5Sget_simple_extent_dims(space.id(), count.data(), nullptr);
  std::vector<hsize_t> first(count.size(), 0);
  first[0] = static_cast<hsize_t>(track->n_written);
  count[0] = static_cast<hsize_t>(track->rows.size() / key.ByteSize());
  const Handle rows(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                    &H5Sclose);
  H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr);
  Check(H5Dwrite(track->dataset.id(), NativeType(key.dtype), rows.id(), space.id(), H5P_DEFAULT,
                 track->rows.data()) >= 0,
        temporary_, "write");
  track->n_written += static_cast<std::int64_t>(count[0]);
  track->rows.clear();
}

void Hdf5Writer::CloseEpisode() {
  const std::lock_guard lock(core::Hdf5Lock());
  for (Track& track : tracks_) track.dataset = Handle();
  file_ = Handle();
}

void Hdf5Writer::EndEpisode() {
  {
    const std::lock_guard lock(core::Hdf5Lock());
    for (Track& track : tracks_) track.dataset = Handle();
    Check(H5Fflush(file_.id(), H5F_SCOPE_GLOBAL) >= 0, temporary_, "write");
    file_ = Handle();
  }
  reader::MoveDurably(temporary_, EpisodeFile(n_episodes_));
  ++n_episodes_;
}

// Compressed arrays are copied as they are.
void Hdf5Writer::JoinEpisodes(const fs::path& path) const {
  std::int64_t n_steps = 0;
  for (std::int64_t i = 0; i < n_episodes_; ++i) {
    n_steps += H5File(EpisodeFile(i)).Header(std::string(kEpisodeGroup) + "/actions").shape[0];
  }
  const std::lock_guard lock(core::Hdf5Lock());
  const Handle file = CreateFile(path);
  const Handle data(H5Gcreate2(file.id(), "data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                    &H5Gclose);
  Check(data.id() >= 0, path, "write");
  const Handle access = FileAccess();
  for (std::int64_t i = 0; i < n_episodes_; ++i) {
    const fs::path from = EpisodeFile(i);
    const Handle episode(H5Fopen(from.c_str(), H5F_ACC_RDONLY, access.id()), &H5Fclose);
    const std::string name = fmt::format("demo_{}", i);
    Check(episode.id() >= 0 && H5Ocopy(episode.id(), kEpisodeGroup, data.id(), name.c_str(),
                                       H5P_DEFAULT, H5P_DEFAULT) >= 0,
          from, "copy the episode");
  }
  WriteNumber(data.id(), "total", n_steps);
  WriteText(data.id(), "env_args", EnvArguments(spec_.fps, config_.source));
  Check(H5Fflush(file.id(), H5F_SCOPE_GLOBAL) >= 0, path, "write");
}

void Hdf5Writer::Finish() {
  reader::RequireEpisodes(n_episodes_, config_.path);
  if (config_.is_act) {
    unfinished_->Publish([&] { core::RenameDurably(EpisodeFile(0).parent_path(), config_.path); });
    return;
  }
  const fs::path temporary = core::TemporaryFor(config_.path);
  const core::Unfinished unfinished(temporary);
  JoinEpisodes(temporary);
  unfinished_->Publish([&] { reader::MoveDurably(temporary, config_.path); });
}

}  // namespace dp_bench::hdf5
