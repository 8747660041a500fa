#include "zarr_replay_dataset.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "dp_bench/error.h"

namespace dp_bench::zarr_replay {
namespace {

constexpr double kBytesPerMb = 1 << 20;
constexpr double kMinMemoryLimitMb = 0.01;
constexpr double kMaxMemoryLimitMb = 1e7;
constexpr std::size_t kMaxArrays = 1000;

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

zarr::Target TargetOf(KeyType type) {
  return type == KeyType::kRgb     ? zarr::Target::kImage
         : type == KeyType::kDepth ? zarr::Target::kDepth
                                   : zarr::Target::kFloat32;
}

bool IsPicture(zarr::Target target) {
  return target == zarr::Target::kImage || target == zarr::Target::kDepth;
}

// The type of an array if the config does not give it. diffusion_policy stores images as float32
// from 0 to 255; as numbers they would take four times the memory, and each pixel would be a
// dimension.
KeyType GuessType(const zarr::ZarrArray& array) {
  constexpr std::int64_t kLeastPixels = 16;  // in each direction
  const Shape& shape = array.shape();
  if (array.dtype() == DType::kUInt8 && shape.size() == 4) return KeyType::kRgb;
  const bool is_picture =
      shape.size() == 4 && shape[3] == 3 && std::min(shape[1], shape[2]) >= kLeastPixels;
  if (array.dtype() == DType::kFloat32 && is_picture) return KeyType::kRgb;
  return array.dtype() == DType::kUInt16 ? KeyType::kDepth : KeyType::kLowDim;
}

// [C, H, W] of an array of images; nothing if it has no images of this type.
std::optional<Shape> PictureShape(const Shape& array, KeyType type) {
  if (type == KeyType::kDepth && array.size() == 3) return Shape{1, array[1], array[2]};
  const std::int64_t n_channels = type == KeyType::kRgb ? 3 : 1;
  if (array.size() != 4 || array[3] != n_channels) return std::nullopt;
  return Shape{n_channels, array[1], array[2]};
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
}

const zarr::ZarrArray& ZarrReplayDataset::Open(const std::string& name) {
  return arrays_.try_emplace(name, *store_, name).first->second;
}

std::map<std::string, KeyConfig> ZarrReplayDataset::FindKeys() {
  std::map<std::string, KeyConfig> keys;
  const std::vector<std::string> names = store_->ListArrays(zarr::kDataFolder);
  if (names.size() > kMaxArrays) {
    throw Error(ErrorCode::kData,
                fmt::format("{} holds {} arrays; at most {} are read. Name the ones to read in "
                            "dataset.params.keys.",
                            store_->Describe(zarr::kDataFolder), names.size(), kMaxArrays));
  }
  for (const std::string& name : names) keys[name] = {.array = DataArray(name)};
  if (!keys.contains("action")) {
    throw Error(ErrorCode::kData,
                fmt::format("{} holds no data/action; name the arrays in dataset.params.keys, such "
                            "as {{\"action\": {{\"array\": \"data/actions\"}}}}",
                            store_->Describe(zarr::kDataFolder)));
  }
  return keys;
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
  const KeyType type = config.type.value_or(GuessType(array));
  const auto refuse = [&](ErrorCode code, const std::string& what) {
    throw Error(code, fmt::format("dataset key '{}': {} has shape {}; {}", name, array.Describe(),
                                  ToString(array.shape()), what));
  };
  const std::int64_t n_steps = episode_ends_.back();
  if (array.num_steps() < n_steps || (array.num_steps() > n_steps && !is_growing_)) {
    refuse(ErrorCode::kData, fmt::format("the episodes end at step {}", n_steps));
  }
  const std::int64_t step = array.step_elements();
  if (step == 0) refuse(ErrorCode::kData, "its steps are empty");

  KeySpec spec{.name = name};
  const zarr::Target target = TargetOf(type);
  KeySource source{.array = &array,
                   .target = target,
                   .step_bytes = static_cast<std::size_t>(step) * zarr::TargetSize(target),
                   .offset = 0};
  const bool is_sliced = config.begin || config.end;
  if (type != KeyType::kLowDim) {
    const bool is_rgb = type == KeyType::kRgb;
    const std::optional<Shape> shape = PictureShape(array.shape(), type);
    if (!shape || is_sliced) {
      refuse(ErrorCode::kConfig, is_rgb ? "an rgb key is a whole array [steps, height, width, 3]"
                                        : "a depth key is a whole array [steps, height, width, 1]");
    }
    spec.type = type;
    spec.dtype = is_rgb ? DType::kUInt8 : DType::kUInt16;
    spec.shape = *shape;
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
  if (is_new) Load(*source->array, source->target, &entry->second);
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
