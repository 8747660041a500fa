// The out-of-line parts of the SDK's interfaces: their vtables and the specs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/errors.h"
#include "dp_bench/config_keys.h"
#include "dp_bench/dataset.h"
#include "dp_bench/dataset_writer.h"
#include "dp_bench/env.h"
#include "dp_bench/spec.h"

namespace dp_bench {
namespace {

KeySpec ReadKeySpec(const Config& config, const std::string& name) {
  KeySpec key{.name = name};
  ConfigKeys(config).Choice(
      "type", &key.type,
      {{"low_dim", KeyType::kLowDim},
       {"rgb", KeyType::kRgb},
       {"depth", KeyType::kDepth},
       {"task", KeyType::kTask}},
      "numbers, a colour image, a depth image, or what the section task_key says");
  key.shape = config.Require<std::vector<std::int64_t>>(
      "shape", "shape of one time step; images are [C, H, W]");
  const char* default_dtype = key.type == KeyType::kRgb ? "uint8" : "float32";
  key.dtype = ParseDType(
      config.Get<std::string>("dtype", default_dtype,
                              "float32, uint8 or uint16; rgb keys are uint8 by default. Depth as "
                              "uint16 is in millimetres, as float32 in metres"));

  const bool is_image = key.is_image();
  const bool is_positive = std::ranges::all_of(key.shape, [](std::int64_t n) { return n > 0; });
  if (key.shape.empty() || !is_positive || (is_image && key.shape.size() != 3)) {
    throw ConfigError("{} is {}; a {} key needs {}", config.Where("shape"), ToString(key.shape),
                      Name(key.type),
                      is_image ? "[C, H, W], all positive" : "at least one positive size");
  }
  return key;
}

}  // namespace

Dataset::~Dataset() = default;
DatasetWriter::~DatasetWriter() = default;

void Dataset::Read(int key, std::int64_t begin, std::int64_t end, std::span<std::byte> out) const {
  const std::vector<KeySpec>& keys = spec().keys;
  if (key < 0 || static_cast<std::size_t>(key) >= keys.size()) {
    throw DataError("expected one of {} keys, found key {}", keys.size(), key);
  }
  const KeySpec& spec = keys[static_cast<std::size_t>(key)];
  const std::int64_t n_steps = episode_ends().empty() ? 0 : episode_ends().back();
  if (begin < 0 || begin > end || end > n_steps) {
    throw DataError("steps {} to {} of '{}' are out of range; it has {}", begin, end, spec.name,
                    n_steps);
  }
  const std::size_t n_bytes = static_cast<std::size_t>(end - begin) * spec.ByteSize();
  if (out.size() != n_bytes) {
    throw DataError("{} steps of '{}' need {} bytes; the buffer has {}", end - begin, spec.name,
                    n_bytes, out.size());
  }
  if (begin < end) DoRead(key, begin, end, out);
}

std::string Dataset::Task(std::int64_t) const { return ""; }
std::string Dataset::FeatureName(int) const { return ""; }
std::vector<std::string> Dataset::ChannelNames(int) const { return {}; }
std::optional<StatedRange> Dataset::RecordedRange(int) const { return std::nullopt; }
std::vector<std::string> DatasetWriter::Notes() const { return {}; }

ObsWriter::ObsWriter(std::span<const KeySpec> keys, std::span<const std::span<std::byte>> buffers)
    : keys_(keys), buffers_(buffers) {
  if (buffers.size() != keys.size()) {
    throw ShapeError("expected {} observation buffers, found {}", keys.size(), buffers.size());
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (buffers[i].size() == keys[i].ByteSize()) continue;
    throw ShapeError("expected a buffer of {} bytes for '{}', found {}", keys[i].ByteSize(),
                     keys[i].name, buffers[i].size());
  }
}

std::span<std::byte> ObsWriter::Find(std::string_view key, DType dtype) const {
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (keys_[i].name != key) continue;
    if (keys_[i].dtype == dtype) return buffers_[i];
    throw ShapeError("observation '{}': expected Buffer<T> of {}, as in the spec, found {}", key,
                     Name(keys_[i].dtype), Name(dtype));
  }
  std::string names;
  for (const KeySpec& known : keys_) names += (names.empty() ? "" : ", ") + known.name;
  throw ShapeError("expected an observation of the spec, {}; found '{}'", names, key);
}

int Dataset::KeyIndex(std::string_view name) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < spec().keys.size(); ++i) {
    if (spec().keys[i].name == name) return static_cast<int>(i);
    names.push_back(spec().keys[i].name);
  }
  throw DataError("the dataset has no key '{}'; it has: {}", name, fmt::join(names, ", "));
}

std::string_view Name(KeyType type) {
  constexpr std::array kNames = {"low_dim", "rgb", "depth", "task"};
  const auto index = static_cast<std::size_t>(type);
  return index < kNames.size() ? kNames[index] : "?";
}

Shape KeySpec::StorageShape() const {
  if (!is_image()) return shape;
  return {shape[1], shape[2], shape[0]};
}

std::int64_t KeySpec::NumElements() const { return dp_bench::NumElements(shape); }

std::size_t KeySpec::ByteSize() const {
  return static_cast<std::size_t>(NumElements()) * SizeOf(dtype);
}

ShapeMeta ShapeMeta::FromConfig(const Config& config) {
  ShapeMeta meta;
  const Config obs = config.Sub("obs", "observations; if left out, all that the env offers");
  for (const std::string& name : obs.Keys()) {
    meta.obs.push_back(ReadKeySpec(obs.Sub(name), name));
  }
  meta.action = ReadKeySpec(config.Sub("action", "the action; if left out, the env's"), "action");
  if (meta.obs.empty() || meta.action.type != KeyType::kLowDim) {
    throw ConfigError("{} needs at least one obs key and a low_dim action", config.Where());
  }
  return meta;
}

Horizons Horizons::FromConfig(const Config& config) {
  Horizons h;
  const ConfigKeys keys(config);
  keys("horizon", &h.horizon, 1, 4096, "T, predicted steps");
  keys("n_obs_steps", &h.n_obs_steps, 1, 256, "To, observed steps");
  keys("n_action_steps", &h.n_action_steps, 1, 4096,
       "Ta, executed steps; at most horizon - n_obs_steps + 1");
  keys("drop_n_last_frames", &h.drop_n_last_frames, 0, std::int64_t{1} << 20,
       "last steps of an episode that are not the current step of a training sequence; none: "
       "horizon - n_action_steps - n_obs_steps + 1");
  keys("temporal_ensemble_coeff", &h.temporal_ensemble_coeff, -10.0, 10.0,
       "temporal ensembling: plan at every step and execute the mean of what the plans have for "
       "it, n_action_steps of them at most, with weights exp(-coeff * i), oldest plan first; ACT's "
       "is 0.01; none: execute n_action_steps of each plan");
  if (h.n_action_steps > h.horizon - h.n_obs_steps + 1) {
    const bool is_default = h.n_action_steps == Horizons().n_action_steps;
    throw ConfigError(
        "{}: n_action_steps is {}, but only horizon - n_obs_steps + 1 = {} predicted steps lie at "
        "or after the current one",
        config.Where(is_default ? "horizon" : "n_action_steps"), h.n_action_steps,
        h.horizon - h.n_obs_steps + 1);
  }
  if (h.temporal_ensemble_coeff && h.n_action_steps == 1) {
    throw ConfigError(
        "{} is {}, and n_action_steps is 1: the mean would be of one plan. Here n_action_steps is "
        "the number of plans in the mean, up to horizon - n_obs_steps + 1",
        config.Where("temporal_ensemble_coeff"), *h.temporal_ensemble_coeff);
  }
  return h;
}

}  // namespace dp_bench
