#include "zarr_replay_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "dp_bench/config_keys.h"
#include "dp_bench/error.h"

namespace dp_bench::zarr_replay {
namespace {

constexpr std::size_t kMaxArrays = 1000;
constexpr const char* kMetaFolder = "meta";

// The limit is meant for images and for hostile files. This much of other data does not count, so
// that a small limit applies only to images.
constexpr double kUncountedBytes = 16 << 20;

double LoadedBytes(const zarr::ZarrArray& array, DType target) {
  return static_cast<double>(array.num_elements()) * static_cast<double>(SizeOf(target));
}

DType TargetOf(KeyType type, zarr::ElementType stored) {
  if (type == KeyType::kRgb) return DType::kUInt8;
  const bool is_number = type == KeyType::kLowDim || zarr::Name(stored).starts_with("float");
  return is_number ? DType::kFloat32 : DType::kUInt16;
}

bool IsImage(DType target) { return target != DType::kFloat32; }

struct ImageLayout {
  Shape shape;  // [C, H, W]
  bool is_channels_first = false;

  bool IsLarge() const {
    constexpr std::int64_t kLeastPixels = 16;  // in each direction
    return std::min(shape[1], shape[2]) >= kLeastPixels;
  }
};

// Nothing if the array has no images of this type.
std::optional<ImageLayout> FindImages(const Shape& array, KeyType type) {
  const std::int64_t n_channels = type == KeyType::kRgb ? 3 : 1;
  if (array.size() == 3 && n_channels == 1) return ImageLayout{{1, array[1], array[2]}};
  if (array.size() != 4) return std::nullopt;
  if (array[3] == n_channels) return ImageLayout{{n_channels, array[1], array[2]}};
  if (array[1] == n_channels) return ImageLayout{{n_channels, array[2], array[3]}, true};
  return std::nullopt;
}

std::string DataArray(const std::string& name) {
  return fmt::format("{}/{}", zarr::kDataFolder, name);
}

}  // namespace

ZarrReplayConfig ZarrReplayConfig::FromConfig(const Config& params) {
  ZarrReplayConfig config{
      .path = params.Require<std::string>(
          "path", "zarr folder or .zarr.zip, relative to the current directory")};
  const ConfigKeys keys(params);
  keys("episode_ends", &config.episode_ends, "array of the step after the end of each episode");
  keys("fps", &config.fps, reader::kMinFps, reader::kMaxFps,
       "steps per second; none for what `.zattrs` says");
  keys(
      "memory_limit_mb", &config.memory_limit_mb, 0.01, reader::kMaxMemoryMb,
      "MiB for everything that the reader holds, of which the first 16 MB of numbers do not count. "
      "Images that do not fit are read from their chunks as needed; other data that does not fit "
      "is an error");
  config.keys = reader::ReadKeyConfigs(
      params, "where each key comes from; if left out, every array below `data/` is a key",
      [](const Config& key) {
        return reader::ReadKeyConfig(
            key, "array",
            "the array, such as data/state; none for that of the key's name in data/");
      },
      R"({"array": "data/action"})");
  return config;
}

std::unique_ptr<Dataset> ZarrReplayDataset::Create(const Config& params) {
  return std::make_unique<ZarrReplayDataset>(ZarrReplayConfig::FromConfig(params));
}

ZarrReplayDataset::ZarrReplayDataset(const ZarrReplayConfig& config)
    : ZarrReplayDataset(config, zarr::OpenStore(config.path)) {}

ZarrReplayDataset::ZarrReplayDataset(const ZarrReplayConfig& config,
                                     std::unique_ptr<zarr::Store> store)
    : memory_(config.memory_limit_mb, kUncountedBytes), store_(std::move(store)) {
  zarr::ZarrAttributes attributes = zarr::ReadZarrAttributes(
      *store_, std::min(zarr::kMaxAttributeBytes, static_cast<std::uint64_t>(memory_.all())));
  is_growing_ = attributes.is_growing;
  spec_.fps = config.fps.value_or(attributes.fps.value_or(0.0));
  LoadEpisodeEnds(config.episode_ends);
  if (attributes.tasks.size() == ends_.size() || is_growing_) tasks_ = std::move(attributes.tasks);
  for (const auto& [name, key] : config.keys.empty() ? FindKeys() : config.keys) {
    AddKey(name, key);
  }
  LoadArrays();
  TellMissingChunks();
  if (is_growing_) {
    reader::WarnUser(fmt::format(
        "{} is not complete, because what writes it still runs or was interrupted; it has {} "
        "episodes so far. The same command continues it.",
        store_->Describe(""), episode_ends().size()));
  }
}

const zarr::ZarrArray& ZarrReplayDataset::Open(const std::string& name) {
  return arrays_.try_emplace(name, *store_, name).first->second;
}

reader::KeyConfigs ZarrReplayDataset::FindKeys() {
  const std::vector<std::string> names = store_->ListFolders(zarr::kDataFolder);
  if (names.size() > kMaxArrays) {
    throw Error(ErrorCode::kData,
                fmt::format("{} holds {} arrays; at most {} are read. Name the ones to read in "
                            "dataset.params.keys.",
                            store_->Describe(zarr::kDataFolder), names.size(), kMaxArrays));
  }
  reader::KeyConfigs keys;
  std::vector<std::string> left_out;
  for (const std::string& name : names) {
    const std::string array = DataArray(name);
    const std::string reason = WhyLeftOut(array);
    if (reason.empty()) {
      keys[name] = {.source = array};
    } else {
      left_out.push_back(fmt::format("{} ({})", array, reason));
    }
  }
  if (!keys.contains(reader::kAction)) {
    throw Error(
        ErrorCode::kData,
        fmt::format(
            "{} holds no data/action{}; name the arrays in dataset.params.keys, "
            "such as {{\"action\": {{\"array\": \"data/actions\"}}}}",
            store_->Describe(zarr::kDataFolder),
            left_out.empty() ? "" : " of numbers (left out: " + reader::ListFirst(left_out) + ")"));
  }
  for (const std::string& name : store_->ListFolders("")) {
    if (name != zarr::kDataFolder && name != kMetaFolder) left_out.push_back(name);
  }
  for (const std::string& name : store_->ListFolders(kMetaFolder)) {
    const std::string array = fmt::format("{}/{}", kMetaFolder, name);
    if (array != zarr::kEpisodeEndsArray) left_out.push_back(array);
  }
  if (!left_out.empty()) {
    reader::WarnUser(
        fmt::format("{}: left out: {}", store_->Describe(""), reader::ListFirst(left_out)));
  }
  return keys;
}

// Empty for an array that is read if the config names no keys.
std::string ZarrReplayDataset::WhyLeftOut(const std::string& array) const {
  const std::optional<zarr::ZarrMetadata> metadata = zarr::FindZarrArray(*store_, array);
  if (!metadata) return "no array; those below it are read if dataset.params.keys names them";
  if (!metadata->unreadable.empty()) return metadata->unreadable;
  if (HasEveryStep(metadata->shape)) {
    return metadata->num_elements > 0
               ? ""
               : fmt::format("shape {}; its steps are empty", ToString(metadata->shape));
  }
  return fmt::format("shape {}; the episodes end at step {}", ToString(metadata->shape), n_steps());
}

// Arrays of a collection that is running may be longer than the episodes.
bool ZarrReplayDataset::HasEveryStep(const Shape& shape) const {
  return shape[0] == n_steps() || (shape[0] > n_steps() && is_growing_);
}

// diffusion_policy stores images as float32 from 0 to 255; as numbers they would take four times
// the memory, and each pixel would be a dimension.
KeyType ZarrReplayDataset::GuessType(const zarr::ZarrArray& array) const {
  if (const std::optional<std::string>& stated = array.key_type()) {
    if (const std::optional<KeyType> type = reader::ParseKeyType(*stated)) return *type;
    throw Error(ErrorCode::kData, fmt::format("{} has the {} '{}'; expected low_dim, rgb or depth",
                                              array.Describe(), zarr::kTypeAttribute, *stated));
  }
  using zarr::ElementType;
  if (const auto colour = FindImages(array.shape(), KeyType::kRgb)) {
    const bool is_surely_last = array.type() == ElementType::kUInt8 && !colour->is_channels_first;
    if (is_surely_last) return KeyType::kRgb;
    if (colour->IsLarge() && array.type() == ElementType::kUInt8) return KeyType::kRgb;
    // a chunk beyond the limit is an error later, for any type
    const auto needed = static_cast<double>(2 * array.chunk_bytes() + array.scratch_bytes());
    if (colour->IsLarge() && array.type() == ElementType::kFloat32 &&
        (needed > memory_.all() || array.FirstChunkFits(DType::kUInt8))) {
      return KeyType::kRgb;
    }
  }
  const auto depth = FindImages(array.shape(), KeyType::kDepth);
  const bool is_depth = array.type() == ElementType::kUInt16 && depth && depth->IsLarge();
  return is_depth ? KeyType::kDepth : KeyType::kLowDim;
}

// Memory is counted before it is allocated. As many threads decode as fit in the limit.
void ZarrReplayDataset::Load(const zarr::ZarrArray& array, DType target,
                             reader::PageBuffer* buffer) {
  const double bytes = LoadedBytes(array, target);
  const auto scratch = static_cast<double>(array.scratch_bytes());
  memory_.Hold(bytes, array.Describe(), scratch);
  *buffer = reader::PageBuffer(static_cast<std::size_t>(bytes));
  const double room = memory_.all() - memory_.held();
  const double n_threads = reader::NumDecoderThreads();
  array.Load(target, static_cast<int>(std::clamp(room / std::max(1.0, scratch), 1.0, n_threads)),
             buffer->bytes());
}

// Throws if it is known why the array of episodes does not exist.
void ZarrReplayDataset::ExplainNoEpisodes(const std::string& name) const {
  const std::string where = store_->Describe("");
  if (is_growing_) {
    throw Error(ErrorCode::kData,
                fmt::format("{} has no episode yet: what writes it runs, or ended before the first "
                            "episode was complete. The same command continues it.",
                            where));
  }
  constexpr std::size_t kMaxFolders = 10;
  const std::vector<std::string> folders = store_->ListFolders("");
  if (folders.size() > kMaxFolders) return;
  for (const std::string& folder : folders) {
    const std::vector<std::string> below = store_->ListFolders(folder);
    if (!std::ranges::binary_search(below, zarr::kDataFolder) ||
        !std::ranges::binary_search(below, kMetaFolder)) {
      continue;
    }
    throw Error(ErrorCode::kData,
                fmt::format("{} has no array '{}': the dataset is one folder deeper, in '{}'. Give "
                            "that folder as the dataset; unpack a zip archive first.",
                            where, name, store_->Describe(folder)));
  }
}

void ZarrReplayDataset::LoadEpisodeEnds(const std::string& name) {
  if (!zarr::FindZarrArray(*store_, name)) ExplainNoEpisodes(name);
  const zarr::ZarrArray& array = Open(name);
  if (array.shape().size() != 1 || array.num_elements() == 0) {
    throw Error(ErrorCode::kData, fmt::format("{} has shape {}; expected the end of each episode",
                                              array.Describe(), ToString(array.shape())));
  }
  Load(array, DType::kInt64, &episode_end_bytes_);
  ends_ = {reinterpret_cast<const std::int64_t*>(episode_end_bytes_.bytes().data()),
           static_cast<std::size_t>(array.num_elements())};

  std::int64_t begin = 0;
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    if (ends_[i] <= begin) {
      throw Error(ErrorCode::kData, fmt::format("{}: episode {} ends at step {}, but begins at {}",
                                                array.Describe(), i, ends_[i], begin));
    }
    begin = ends_[i];
  }
}

void ZarrReplayDataset::AddKey(const std::string& name, const KeyConfig& config) {
  const zarr::ZarrArray& array = Open(config.source.empty() ? DataArray(name) : config.source);
  const auto refuse = [&](ErrorCode code, const std::string& what) {
    throw Error(code, fmt::format("dataset key '{}': {} has shape {}; {}", name, array.Describe(),
                                  ToString(array.shape()), what));
  };
  if (!HasEveryStep(array.shape())) {
    refuse(ErrorCode::kData, fmt::format("the episodes end at step {}", n_steps()));
  }
  const std::int64_t step = array.step_elements();
  if (step == 0) refuse(ErrorCode::kData, "its steps are empty");

  const KeyType type = config.type               ? *config.type
                       : name == reader::kAction ? KeyType::kLowDim
                                                 : GuessType(array);
  const DType target = TargetOf(type, array.type());
  KeySpec spec{.name = name, .type = type, .dtype = target};
  KeySource source{.array = &array, .target = target};
  Held held{.step_bytes = static_cast<std::size_t>(step) * SizeOf(target)};
  if (type != KeyType::kLowDim) {
    const bool is_rgb = type == KeyType::kRgb;
    const std::optional<ImageLayout> images = FindImages(array.shape(), type);
    if (!images || config.is_sliced()) {
      refuse(ErrorCode::kConfig,
             is_rgb ? "an rgb key is a whole array [steps, height, width, 3] or [steps, 3, height, "
                      "width]"
                    : "a depth key is a whole array [steps, height, width, 1]");
    }
    if (static_cast<double>(held.step_bytes) > memory_.all()) {
      refuse(ErrorCode::kConfig,
             fmt::format("one image takes {} bytes, more than dataset.params.memory_limit_mb ({})",
                         held.step_bytes, memory_.limit() / reader::kBytesPerMb));
    }
    spec.shape = images->shape;
    source.is_channels_first = is_rgb && images->is_channels_first;
  } else if (config.is_sliced()) {
    const reader::Slice slice = reader::SliceOf(
        config, step, [&](const std::string& what) { refuse(ErrorCode::kConfig, what); });
    spec.shape = {slice.end - slice.begin};
    held.offset = static_cast<std::size_t>(slice.begin) * sizeof(float);
  } else {
    spec.shape.assign(array.shape().begin() + 1, array.shape().end());
    if (spec.shape.empty()) spec.shape = {1};
  }
  if (name == reader::kAction && (type != KeyType::kLowDim || spec.shape.size() != 1)) {
    refuse(ErrorCode::kConfig, "the action is a low_dim array [steps, action_dim]");
  }

  spec_.keys.push_back(std::move(spec));
  held_.push_back(held);
  sources_.push_back(source);
}

std::string ZarrReplayDataset::Task(std::int64_t episode) const {
  const auto index = static_cast<std::size_t>(episode);
  return index < tasks_.size() ? tasks_[index] : "";
}

std::vector<std::string> ZarrReplayDataset::ChannelNames(int key) const {
  return PartOf(key, sources_.at(static_cast<std::size_t>(key)).array->channels());
}

// Loads numbers, and images if all of them fit in the rest of the limit.
void ZarrReplayDataset::LoadArrays() {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (!IsImage(sources_[i].target)) LoadSource(i);
  }
  double image_bytes = 0.0;
  double scratch_bytes = 0.0;
  std::set<std::pair<const zarr::ZarrArray*, DType>> images;  // keys may share an array
  for (const KeySource& source : sources_) {
    if (!IsImage(source.target) || !images.emplace(source.array, source.target).second) continue;
    image_bytes += LoadedBytes(*source.array, source.target);
    scratch_bytes = std::max(scratch_bytes, static_cast<double>(source.array->scratch_bytes()));
  }
  if (image_bytes + memory_.Counted(memory_.held() + scratch_bytes) > memory_.limit()) {
    return PrepareCache();
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (IsImage(sources_[i].target)) LoadSource(i);
  }
}

void ZarrReplayDataset::LoadSource(std::size_t key) {
  const KeySource& source = sources_[key];
  const auto [entry, is_new] = buffers_.try_emplace({source.array, source.target});
  if (is_new) {
    try {
      Load(*source.array, source.target, &entry->second);
    } catch (Error& error) {  // images say the same when they are read later
      const std::string& name = spec_.keys[key].name;
      if (!IsImage(source.target)) error.AddContext(fmt::format("in the dataset key '{}'", name));
      throw;
    }
    if (source.is_channels_first) {
      reader::InterleavePlanes(held_[key].step_bytes, entry->second.bytes());
    }
  }
  held_[key].steps = &entry->second;
}

// Faults that would occur at the first image are thrown here.
void ZarrReplayDataset::PrepareCache() {
  const double limit = memory_.left();
  for (const KeySource& source : sources_) {
    if (!IsImage(source.target)) continue;
    source.array->RequireConvertible(source.target);
    const auto chunk_bytes = static_cast<double>(source.array->chunk_bytes());
    if (chunk_bytes > limit) {
      memory_.Refuse(fmt::format("{} has chunks of {} bytes, which are decoded as a whole",
                                 source.array->Describe(), chunk_bytes),
                     memory_.Counted(memory_.held()) + chunk_bytes);
    }
  }
  memory_.RequireMachineHas(limit);
  cache_ = std::make_unique<reader::ChunkCache>(static_cast<std::size_t>(limit));
}

// An incomplete copy looks the same. Numbers are often 0 for long, images and actions seldom, and
// dp_bench itself stores every chunk.
void ZarrReplayDataset::TellMissingChunks() const {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const zarr::ZarrArray& array = *sources_[i].array;
    if (array.num_missing() == 0) continue;
    const std::string note = fmt::format(
        "{}: {} of {} chunks are not stored and hold the fill value, as zarr writes them to save "
        "space. If the dataset was copied, make sure that the copy is complete.",
        array.Describe(), array.num_missing(), array.num_chunks());
    const bool is_unusual = spec_.keys[i].type != KeyType::kLowDim ||
                            spec_.keys[i].name == reader::kAction || array.key_type().has_value();
    is_unusual ? reader::WarnUser(note) : reader::TellUser(note);
  }
}

void ZarrReplayDataset::ReadImages(std::size_t key, std::int64_t begin, std::int64_t end,
                                   std::span<std::byte> out) const {
  const KeySource& source = sources_[key];
  source.array->ReadSteps(begin, end, source.target, cache_.get(), out);
  if (source.is_channels_first) reader::InterleavePlanes(held_[key].step_bytes, out);
}

}  // namespace dp_bench::zarr_replay
