#include "zarr_replay_dataset.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "dp_bench/error.h"
#include "zarr_attributes.h"

namespace dp_bench::zarr_replay {
namespace {

constexpr double kDefaultFps = 10.0;
constexpr double kBytesPerMb = 1 << 20;
constexpr double kMinMemoryLimitMb = 0.01;
constexpr double kMaxMemoryLimitMb = 1e7;

std::uint64_t MachineMemory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// The sizes were checked against the chunk files; what remains is whether this machine can hold
// them.
std::size_t LoadedBytes(const ZarrArray& array, Target target) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(array.num_elements()) * TargetSize(target);
  if (bytes > MachineMemory()) {
    throw Error(ErrorCode::kData, fmt::format("{} needs {} bytes; this machine has {} of memory",
                                              array.Describe(), bytes, MachineMemory()));
  }
  return bytes;
}

KeyType ParseType(std::string_view name) {
  return name == "rgb" ? KeyType::kRgb : name == "depth" ? KeyType::kDepth : KeyType::kLowDim;
}

Target TargetOf(KeyType type) {
  return type == KeyType::kRgb     ? Target::kImage
         : type == KeyType::kDepth ? Target::kDepth
                                   : Target::kFloat32;
}

bool IsPicture(Target target) { return target == Target::kImage || target == Target::kDepth; }

// What an array is when nobody says it.
KeyType GuessType(const ZarrArray& array) {
  const std::size_t n_axes = array.shape().size();
  if (array.dtype() == DType::kUInt8 && n_axes == 4) return KeyType::kRgb;
  return array.dtype() == DType::kUInt16 ? KeyType::kDepth : KeyType::kLowDim;
}

// [C, H, W] of an array of pictures; nothing when it holds none of this type.
std::optional<Shape> PictureShape(const Shape& array, KeyType type) {
  if (type == KeyType::kDepth && array.size() == 3) return Shape{1, array[1], array[2]};
  const std::int64_t n_channels = type == KeyType::kRgb ? 3 : 1;
  if (array.size() != 4 || array[3] != n_channels) return std::nullopt;
  return Shape{n_channels, array[1], array[2]};
}

}  // namespace

ZarrReplayConfig ZarrReplayConfig::FromConfig(const Config& params) {
  const ZarrReplayConfig defaults;
  ZarrReplayConfig config{
      .path = params.Get<std::string>("path"),
      .episode_ends = params.Get<std::string>("episode_ends", defaults.episode_ends)};
  if (params.GetOptional<double>("fps")) {
    config.fps = params.GetInRange("fps", 0.0, kMinFps, kMaxFps);
  }
  config.memory_limit_mb = params.GetInRange("memory_limit_mb", defaults.memory_limit_mb,
                                             kMinMemoryLimitMb, kMaxMemoryLimitMb);
  if (!params.Has("keys")) return config;

  const Config keys = params.Sub("keys");
  for (const std::string& name : keys.Keys()) {
    const Config key = keys.Sub(name);
    config.keys[name] = {.array = key.Get<std::string>("array"),
                         .type = ParseType(key.GetChoice("type", {"low_dim", "rgb", "depth"})),
                         .begin = key.GetOptional<std::int64_t>("begin"),
                         .end = key.GetOptional<std::int64_t>("end")};
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
    : store_(OpenStore(config.path)) {
  const int n_threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const ZarrAttributes attributes = ReadZarrAttributes(*store_);
  is_growing_ = attributes.is_growing;
  spec_.fps = config.fps.value_or(attributes.fps.value_or(kDefaultFps));
  LoadEpisodeEnds(config.episode_ends, n_threads);
  for (const auto& [name, key] : config.keys.empty() ? FindKeys() : config.keys) {
    AddKey(name, key);
  }
  LoadArrays(config.memory_limit_mb, n_threads);
}

const ZarrArray& ZarrReplayDataset::Open(const std::string& name) {
  return arrays_.try_emplace(name, *store_, name).first->second;
}

std::map<std::string, KeyConfig> ZarrReplayDataset::FindKeys() {
  std::map<std::string, KeyConfig> keys;
  for (const std::string& name : store_->ListArrays("data")) {
    const std::string array = "data/" + name;
    keys[name] = {.array = array, .type = GuessType(Open(array))};
  }
  if (!keys.contains("action")) {
    throw Error(ErrorCode::kData,
                fmt::format("{} holds no data/action; name the arrays in dataset.params.keys, such "
                            "as {{\"action\": {{\"array\": \"data/actions\"}}}}",
                            store_->Describe("data")));
  }
  return keys;
}

void ZarrReplayDataset::LoadEpisodeEnds(const std::string& name, int n_threads) {
  const ZarrArray& array = Open(name);
  if (array.shape().size() != 1 || array.num_elements() == 0) {
    throw Error(ErrorCode::kData, fmt::format("{} has shape {}; wanted the end of each episode",
                                              array.Describe(), ToString(array.shape())));
  }
  episode_ends_.resize(LoadedBytes(array, Target::kInt64) / sizeof(std::int64_t));
  array.Load(Target::kInt64, n_threads, std::as_writable_bytes(std::span(episode_ends_)));

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
  const ZarrArray& array = Open(config.array);
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
  const Target target = TargetOf(config.type);
  KeySource source{.array = &array,
                   .target = target,
                   .step_bytes = static_cast<std::size_t>(step) * TargetSize(target),
                   .offset = 0};
  const bool is_sliced = config.begin || config.end;
  if (config.type != KeyType::kLowDim) {
    const bool is_rgb = config.type == KeyType::kRgb;
    const std::optional<Shape> shape = PictureShape(array.shape(), config.type);
    if (!shape || is_sliced) {
      refuse(ErrorCode::kConfig, is_rgb ? "an rgb key is a whole array [steps, height, width, 3]"
                                        : "a depth key is a whole array [steps, height, width, 1]");
    }
    spec.type = config.type;
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
  if (name == "action" && (config.type != KeyType::kLowDim || spec.shape.size() != 1)) {
    refuse(ErrorCode::kConfig, "the action is a low_dim array [steps, action_dim]");
  }

  spec_.keys.push_back(std::move(spec));
  sources_.push_back(source);
}

// Numbers, and pictures where all of them fit the limit.
void ZarrReplayDataset::LoadArrays(double memory_limit_mb, int n_threads) {
  const auto bytes = [](const KeySource& source) {
    return static_cast<std::size_t>(source.array->num_steps()) * source.step_bytes;
  };
  double picture_bytes = 0.0;
  std::set<std::pair<const ZarrArray*, Target>> pictures;  // keys may share an array
  for (const KeySource& source : sources_) {
    if (IsPicture(source.target) && pictures.emplace(source.array, source.target).second) {
      picture_bytes += static_cast<double>(bytes(source));
    }
  }
  if (picture_bytes > memory_limit_mb * kBytesPerMb) PrepareCache(memory_limit_mb);

  for (KeySource& source : sources_) {
    if (cache_ != nullptr && IsPicture(source.target)) continue;
    const auto [entry, is_new] = buffers_.try_emplace({source.array, source.target});
    if (is_new) {
      entry->second = PageBuffer(bytes(source));
      source.array->Load(source.target, n_threads, entry->second.bytes());
    }
    source.buffer = &entry->second;
  }
}

// What would fail at the first picture fails here.
void ZarrReplayDataset::PrepareCache(double memory_limit_mb) {
  const auto limit = static_cast<std::size_t>(memory_limit_mb * kBytesPerMb);
  for (const KeySource& source : sources_) {
    if (!IsPicture(source.target)) continue;
    source.array->RequireConvertible(source.target);
    const std::size_t chunk_bytes = source.array->chunk_bytes();
    if (chunk_bytes > limit) {
      throw Error(ErrorCode::kConfig,
                  fmt::format("dataset.params.memory_limit_mb is {}, but {} has chunks of {} "
                              "bytes, which are decoded as a whole; wanted {} or more",
                              memory_limit_mb, source.array->Describe(), chunk_bytes,
                              std::ceil(static_cast<double>(chunk_bytes) / kBytesPerMb)));
    }
  }
  if (limit > MachineMemory()) {
    throw Error(
        ErrorCode::kConfig,
        fmt::format("dataset.params.memory_limit_mb is {}; this machine has {:.0f}, and the "
                    "pictures need more than the limit",
                    memory_limit_mb, static_cast<double>(MachineMemory()) / kBytesPerMb));
  }
  cache_ = std::make_unique<ChunkCache>(limit);
}

void ZarrReplayDataset::Read(int key, std::int64_t begin, std::int64_t end,
                             std::span<std::byte> out) const {
  if (key < 0 || static_cast<std::size_t>(key) >= spec_.keys.size()) {
    throw Error(ErrorCode::kData, fmt::format("key {} of {} asked for", key, spec_.keys.size()));
  }
  const KeySpec& spec = spec_.keys[static_cast<std::size_t>(key)];
  if (begin < 0 || begin > end || end > episode_ends_.back()) {
    throw Error(ErrorCode::kData, fmt::format("steps {} to {} of '{}' asked for; it has {}", begin,
                                              end, spec.name, episode_ends_.back()));
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
