#include "zarr_replay_dataset.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "data/zarr/notes.h"
#include "dp_bench/error.h"

namespace dp_bench::zarr_replay {
namespace {

constexpr double kBytesPerMb = 1 << 20;
constexpr double kMinMemoryLimitMb = 0.01;
constexpr double kMaxMemoryLimitMb = 1e7;
constexpr std::size_t kMaxArrays = 1000;
constexpr const char* kMetaFolder = "meta";

// The limit is meant for images and for hostile files. This much of other data does not count, so
// that a small limit applies only to images.
constexpr double kUncountedBytes = 16 << 20;

double Counted(double bytes) { return std::max(0.0, bytes - kUncountedBytes); }

std::uint64_t MachineMemory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

double LoadedBytes(const zarr::ZarrArray& array, zarr::Target target) {
  return static_cast<double>(array.num_elements()) * static_cast<double>(zarr::TargetSize(target));
}

KeyType ParseType(std::string_view name) {
  return name == "rgb" ? KeyType::kRgb : name == "depth" ? KeyType::kDepth : KeyType::kLowDim;
}

zarr::Target TargetOf(KeyType type, zarr::ElementType stored) {
  if (type == KeyType::kRgb) return zarr::Target::kImage;
  const bool is_number = type == KeyType::kLowDim || zarr::Name(stored).starts_with("float");
  return is_number ? zarr::Target::kFloat32 : zarr::Target::kDepth;
}

DType LoadedType(zarr::Target target) {
  return target == zarr::Target::kImage   ? DType::kUInt8
         : target == zarr::Target::kDepth ? DType::kUInt16
                                          : DType::kFloat32;
}

bool IsPicture(zarr::Target target) {
  return target == zarr::Target::kImage || target == zarr::Target::kDepth;
}

struct PictureLayout {
  Shape shape;  // [C, H, W]
  bool is_channels_first = false;

  bool IsLarge() const {
    constexpr std::int64_t kLeastPixels = 16;  // in each direction
    return std::min(shape[1], shape[2]) >= kLeastPixels;
  }
};

// Nothing if the array has no pictures of this type.
std::optional<PictureLayout> FindPictures(const Shape& array, KeyType type) {
  const std::int64_t n_channels = type == KeyType::kRgb ? 3 : 1;
  if (array.size() == 3 && n_channels == 1) return PictureLayout{{1, array[1], array[2]}};
  if (array.size() != 4) return std::nullopt;
  if (array[3] == n_channels) return PictureLayout{{n_channels, array[1], array[2]}};
  if (array[1] == n_channels) return PictureLayout{{n_channels, array[2], array[3]}, true};
  return std::nullopt;
}

// Steps of [3, pixels] become [pixels, 3].
void InterleaveChannels(std::size_t step_bytes, std::span<std::byte> steps) {
  std::vector<std::byte> step(step_bytes);
  const std::size_t n_pixels = step_bytes / 3;
  for (std::size_t begin = 0; begin < steps.size(); begin += step_bytes) {
    std::memcpy(step.data(), steps.data() + begin, step_bytes);
    std::byte* to = steps.data() + begin;
    for (std::size_t i = 0; i < n_pixels; ++i) {
      *to++ = step[i];
      *to++ = step[n_pixels + i];
      *to++ = step[2 * n_pixels + i];
    }
  }
}

std::string DataArray(const std::string& name) {
  return fmt::format("{}/{}", zarr::kDataFolder, name);
}

}  // namespace

ZarrReplayConfig ZarrReplayConfig::FromConfig(const Config& params) {
  const ZarrReplayConfig defaults;
  ZarrReplayConfig config{
      .path = params.Require<std::string>(
          "path", "zarr folder or .zarr.zip, relative to the current directory"),
      .episode_ends = params.Get<std::string>("episode_ends", defaults.episode_ends,
                                              "array of the step after the end of each episode")};
  config.fps = params.GetOptionalInRange("fps", zarr::kMinFps, zarr::kMaxFps,
                                         "steps per second; none for what `.zattrs` says");
  config.memory_limit_mb = params.GetInRange(
      "memory_limit_mb", defaults.memory_limit_mb, kMinMemoryLimitMb, kMaxMemoryLimitMb,
      "MiB for everything that the reader holds, of which the first 16 "
      "MB of numbers do not count. Images that do not fit are "
      "read from their chunks as needed; other data that does "
      "not fit is an error");
  if (!params.Has("keys")) return config;

  const Config keys = params.Sub(
      "keys", "where each key comes from; if left out, every array below `data/` is a key");
  for (const std::string& name : keys.Keys()) {
    const Config key = keys.Sub(name);
    const auto array = key.GetOptional<std::string>(
        "array", "the array, such as data/state; none for that of the key's name in data/");
    std::optional<KeyType> type;
    if (array || key.Has("type")) {
      type = ParseType(key.GetChoice(
          "type", {"low_dim", "rgb", "depth"},
          "numbers, colour or depth images; none: guessed if array is none too, else low_dim"));
    }
    config.keys[name] = {.array = array.value_or(DataArray(name)),
                         .type = type,
                         .begin = key.GetOptional<std::int64_t>(
                             "begin", "first element of a step to take; low_dim only, none for 0"),
                         .end = key.GetOptional<std::int64_t>(
                             "end", "index after the last element to take; none for all")};
  }
  if (!config.keys.contains("action")) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{} needs the key 'action', such as {{\"array\": \"data/action\"}}",
                            params.Where("keys")));
  }
  return config;
}

std::unique_ptr<Dataset> ZarrReplayDataset::Create(const Config& params) {
  return std::make_unique<ZarrReplayDataset>(ZarrReplayConfig::FromConfig(params));
}

ZarrReplayDataset::ZarrReplayDataset(const ZarrReplayConfig& config)
    : ZarrReplayDataset(config, zarr::OpenStore(config.path)) {}

ZarrReplayDataset::ZarrReplayDataset(const ZarrReplayConfig& config,
                                     std::unique_ptr<zarr::Store> store)
    : memory_limit_(config.memory_limit_mb * kBytesPerMb), store_(std::move(store)) {
  const zarr::ZarrAttributes attributes = zarr::ReadZarrAttributes(
      *store_, std::min(zarr::kMaxAttributeBytes,
                        static_cast<std::uint64_t>(memory_limit_ + kUncountedBytes)));
  is_growing_ = attributes.is_growing;
  spec_.fps = config.fps.value_or(attributes.fps.value_or(0.0));
  LoadEpisodeEnds(config.episode_ends);
  for (const auto& [name, key] : config.keys.empty() ? FindKeys() : config.keys) {
    AddKey(name, key);
  }
  LoadArrays();
  TellMissingChunks();
}

const zarr::ZarrArray& ZarrReplayDataset::Open(const std::string& name) {
  return arrays_.try_emplace(name, *store_, name).first->second;
}

std::map<std::string, KeyConfig> ZarrReplayDataset::FindKeys() {
  const std::vector<std::string> names = store_->ListFolders(zarr::kDataFolder);
  if (names.size() > kMaxArrays) {
    throw Error(ErrorCode::kData,
                fmt::format("{} holds {} arrays; at most {} are read. Name the ones to read in "
                            "dataset.params.keys.",
                            store_->Describe(zarr::kDataFolder), names.size(), kMaxArrays));
  }
  std::map<std::string, KeyConfig> keys;
  std::vector<std::string> left_out;
  for (const std::string& name : names) {
    const std::string array = DataArray(name);
    const std::string reason = WhyLeftOut(array);
    if (reason.empty()) {
      keys[name] = {.array = array};
    } else {
      left_out.push_back(fmt::format("{} ({})", array, reason));
    }
  }
  if (!keys.contains("action")) {
    throw Error(
        ErrorCode::kData,
        fmt::format(
            "{} holds no data/action{}; name the arrays in dataset.params.keys, "
            "such as {{\"action\": {{\"array\": \"data/actions\"}}}}",
            store_->Describe(zarr::kDataFolder),
            left_out.empty() ? "" : " of numbers (left out: " + zarr::ListFirst(left_out) + ")"));
  }
  for (const std::string& name : store_->ListFolders("")) {
    if (name != zarr::kDataFolder && name != kMetaFolder) left_out.push_back(name);
  }
  for (const std::string& name : store_->ListFolders(kMetaFolder)) {
    const std::string array = fmt::format("{}/{}", kMetaFolder, name);
    if (array != zarr::kEpisodeEndsArray) left_out.push_back(array);
  }
  if (!left_out.empty()) {
    zarr::WarnUser(
        fmt::format("{}: left out: {}", store_->Describe(""), zarr::ListFirst(left_out)));
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
    for (const KeyType type : {KeyType::kLowDim, KeyType::kRgb, KeyType::kDepth}) {
      if (*stated == Name(type)) return type;
    }
    throw Error(ErrorCode::kData, fmt::format("{} has the {} '{}'; expected low_dim, rgb or depth",
                                              array.Describe(), zarr::kTypeAttribute, *stated));
  }
  using zarr::ElementType;
  if (const auto colour = FindPictures(array.shape(), KeyType::kRgb)) {
    const bool is_surely_last = array.type() == ElementType::kUInt8 && !colour->is_channels_first;
    if (is_surely_last) return KeyType::kRgb;
    if (colour->IsLarge() && array.type() == ElementType::kUInt8) return KeyType::kRgb;
    // a chunk beyond the limit is an error later, for any type
    const auto needed = static_cast<double>(2 * array.chunk_bytes() + array.scratch_bytes());
    if (colour->IsLarge() && array.type() == ElementType::kFloat32 &&
        (needed > memory_limit_ + kUncountedBytes || array.FirstChunkFits(zarr::Target::kImage))) {
      return KeyType::kRgb;
    }
  }
  const auto depth = FindPictures(array.shape(), KeyType::kDepth);
  const bool is_depth = array.type() == ElementType::kUInt16 && depth && depth->IsLarge();
  return is_depth ? KeyType::kDepth : KeyType::kLowDim;
}

// Memory is counted before it is allocated. As many threads decode as fit in the limit.
void ZarrReplayDataset::Load(const zarr::ZarrArray& array, zarr::Target target,
                             zarr::PageBuffer* buffer) {
  const double bytes = LoadedBytes(array, target);
  const auto scratch = static_cast<double>(array.scratch_bytes());
  const double needed = Counted(held_bytes_ + bytes + scratch);
  if (needed > memory_limit_) {
    throw Error(
        ErrorCode::kConfig,
        fmt::format("dataset.params.memory_limit_mb is {}, but {} takes {:.0f} bytes in memory and "
                    "{:.0f} while a chunk is decoded; expected {:.0f} or more",
                    memory_limit_ / kBytesPerMb, array.Describe(), bytes, scratch,
                    std::ceil(needed / kBytesPerMb)));
  }
  if (bytes > static_cast<double>(MachineMemory())) {
    throw Error(ErrorCode::kData,
                fmt::format("{} needs {:.0f} bytes; this machine has {} of memory",
                            array.Describe(), bytes, MachineMemory()));
  }
  *buffer = zarr::PageBuffer(static_cast<std::size_t>(bytes));
  held_bytes_ += bytes;
  const double room = memory_limit_ + kUncountedBytes - held_bytes_;
  const double n_threads = std::max(1U, std::thread::hardware_concurrency());
  array.Load(target, static_cast<int>(std::clamp(room / std::max(1.0, scratch), 1.0, n_threads)),
             buffer->bytes());
}

void ZarrReplayDataset::LoadEpisodeEnds(const std::string& name) {
  const zarr::ZarrArray& array = Open(name);
  if (array.shape().size() != 1 || array.num_elements() == 0) {
    throw Error(ErrorCode::kData, fmt::format("{} has shape {}; expected the end of each episode",
                                              array.Describe(), ToString(array.shape())));
  }
  Load(array, zarr::Target::kInt64, &episode_end_bytes_);
  episode_ends_ = {reinterpret_cast<const std::int64_t*>(episode_end_bytes_.bytes().data()),
                   static_cast<std::size_t>(array.num_elements())};

  std::int64_t begin = 0;
  for (std::size_t i = 0; i < episode_ends_.size(); ++i) {
    if (episode_ends_[i] <= begin) {
      throw Error(ErrorCode::kData, fmt::format("{}: episode {} ends at step {}, but begins at {}",
                                                array.Describe(), i, episode_ends_[i], begin));
    }
    begin = episode_ends_[i];
  }
}

void ZarrReplayDataset::AddKey(const std::string& name, const KeyConfig& config) {
  const zarr::ZarrArray& array = Open(config.array);
  const auto refuse = [&](ErrorCode code, const std::string& what) {
    throw Error(code, fmt::format("dataset key '{}': {} has shape {}; {}", name, array.Describe(),
                                  ToString(array.shape()), what));
  };
  if (!HasEveryStep(array.shape())) {
    refuse(ErrorCode::kData, fmt::format("the episodes end at step {}", n_steps()));
  }
  const std::int64_t step = array.step_elements();
  if (step == 0) refuse(ErrorCode::kData, "its steps are empty");

  const KeyType type = config.type        ? *config.type
                       : name == "action" ? KeyType::kLowDim
                                          : GuessType(array);
  const zarr::Target target = TargetOf(type, array.type());
  KeySpec spec{.name = name, .type = type, .dtype = LoadedType(target)};
  KeySource source{.array = &array,
                   .target = target,
                   .step_bytes = static_cast<std::size_t>(step) * zarr::TargetSize(target),
                   .offset = 0};
  const bool is_sliced = config.begin || config.end;
  if (type != KeyType::kLowDim) {
    const bool is_rgb = type == KeyType::kRgb;
    const std::optional<PictureLayout> pictures = FindPictures(array.shape(), type);
    if (!pictures || is_sliced) {
      refuse(ErrorCode::kConfig,
             is_rgb ? "an rgb key is a whole array [steps, height, width, 3] or [steps, 3, height, "
                      "width]"
                    : "a depth key is a whole array [steps, height, width, 1]");
    }
    if (static_cast<double>(source.step_bytes) > memory_limit_ + kUncountedBytes) {
      refuse(
          ErrorCode::kConfig,
          fmt::format("one picture takes {} bytes, more than dataset.params.memory_limit_mb ({})",
                      source.step_bytes, memory_limit_ / kBytesPerMb));
    }
    spec.shape = pictures->shape;
    source.is_channels_first = is_rgb && pictures->is_channels_first;
  } else if (is_sliced) {
    const std::int64_t begin = config.begin.value_or(0);
    const std::int64_t end = config.end.value_or(step);
    if (begin < 0 || begin >= end || end > step) {
      refuse(ErrorCode::kConfig,
             fmt::format("elements {} to {} are no part of its {} per step", begin, end, step));
    }
    spec.shape = {end - begin};
    source.offset = static_cast<std::size_t>(begin) * sizeof(float);
  } else {
    spec.shape.assign(array.shape().begin() + 1, array.shape().end());
    if (spec.shape.empty()) spec.shape = {1};
  }
  if (name == "action" && (type != KeyType::kLowDim || spec.shape.size() != 1)) {
    refuse(ErrorCode::kConfig, "the action is a low_dim array [steps, action_dim]");
  }

  spec_.keys.push_back(std::move(spec));
  sources_.push_back(source);
}

// Loads numbers, and images if all of them fit in the rest of the limit.
void ZarrReplayDataset::LoadArrays() {
  for (KeySource& source : sources_) {
    if (!IsPicture(source.target)) LoadSource(&source);
  }
  double picture_bytes = 0.0;
  double scratch_bytes = 0.0;
  std::set<std::pair<const zarr::ZarrArray*, zarr::Target>> pictures;  // keys may share an array
  for (const KeySource& source : sources_) {
    if (!IsPicture(source.target) || !pictures.emplace(source.array, source.target).second)
      continue;
    picture_bytes += LoadedBytes(*source.array, source.target);
    scratch_bytes = std::max(scratch_bytes, static_cast<double>(source.array->scratch_bytes()));
  }
  if (picture_bytes + Counted(held_bytes_ + scratch_bytes) > memory_limit_) return PrepareCache();
  for (KeySource& source : sources_) {
    if (IsPicture(source.target)) LoadSource(&source);
  }
}

void ZarrReplayDataset::LoadSource(KeySource* source) {
  const auto [entry, is_new] = buffers_.try_emplace({source->array, source->target});
  if (is_new) {
    Load(*source->array, source->target, &entry->second);
    if (source->is_channels_first) InterleaveChannels(source->step_bytes, entry->second.bytes());
  }
  source->buffer = &entry->second;
}

// Faults that would occur at the first image are thrown here.
void ZarrReplayDataset::PrepareCache() {
  const double memory_limit_mb = memory_limit_ / kBytesPerMb;
  const auto limit = static_cast<std::size_t>(memory_limit_ - Counted(held_bytes_));
  for (const KeySource& source : sources_) {
    if (!IsPicture(source.target)) continue;
    source.array->RequireConvertible(source.target);
    const std::size_t chunk_bytes = source.array->chunk_bytes();
    if (chunk_bytes > limit) {
      throw Error(ErrorCode::kConfig,
                  fmt::format("dataset.params.memory_limit_mb is {}, but {} has chunks of {} "
                              "bytes, which are decoded as a whole; expected {} or more",
                              memory_limit_mb, source.array->Describe(), chunk_bytes,
                              std::ceil(static_cast<double>(chunk_bytes) / kBytesPerMb)));
    }
  }
  if (limit > MachineMemory()) {
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset.params.memory_limit_mb is {}; this machine has {:.0f}, and "
                            "the images need more than the limit",
                            memory_limit_mb, static_cast<double>(MachineMemory()) / kBytesPerMb));
  }
  cache_ = std::make_unique<zarr::ChunkCache>(limit);
}

// An incomplete copy looks the same. Numbers are often 0 for long, pictures and actions seldom, and
// dp_bench itself stores every chunk.
void ZarrReplayDataset::TellMissingChunks() const {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const zarr::ZarrArray& array = *sources_[i].array;
    if (array.num_missing() == 0) continue;
    const std::string note = fmt::format(
        "{}: {} of {} chunks are not stored and hold the fill value, as zarr writes them to save "
        "space. If the data set was copied, make sure that the copy is complete.",
        array.Describe(), array.num_missing(), array.num_chunks());
    const bool is_unusual = spec_.keys[i].type != KeyType::kLowDim ||
                            spec_.keys[i].name == "action" || array.key_type().has_value();
    is_unusual ? zarr::WarnUser(note) : zarr::TellUser(note);
  }
}

void ZarrReplayDataset::Read(int key, std::int64_t begin, std::int64_t end,
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
  const std::size_t key_bytes = spec.ByteSize();
  const auto n_steps = static_cast<std::size_t>(end - begin);
  if (out.size() != n_steps * key_bytes) {
    throw Error(ErrorCode::kData, fmt::format("{} steps of '{}' need {} bytes; the buffer has {}",
                                              n_steps, spec.name, n_steps * key_bytes, out.size()));
  }
  if (n_steps == 0) return;

  const KeySource& source = sources_[static_cast<std::size_t>(key)];
  if (source.buffer == nullptr) {
    source.array->ReadSteps(begin, end, source.target, cache_.get(), out);
    if (source.is_channels_first) InterleaveChannels(source.step_bytes, out);
    return;
  }
  const std::byte* from = source.buffer->bytes().data() + source.offset +
                          static_cast<std::size_t>(begin) * source.step_bytes;
  if (key_bytes == source.step_bytes) {
    std::memcpy(out.data(), from, out.size());
    return;
  }
  for (std::size_t i = 0; i < n_steps; ++i) {
    std::memcpy(out.data() + i * key_bytes, from + i * source.step_bytes, key_bytes);
  }
}

}  // namespace dp_bench::zarr_replay
