#include "run/episode_trace.h"

#include <fmt/format.h>

#include "core/copy_bytes.h"
#include "core/sha256.h"

namespace dp_bench::run {
namespace {

constexpr std::int64_t kDigestLength = 64;

std::string ColumnOf(const KeySpec& key) {
  return (key.is_image() ? "obs_sha256." : "obs.") + key.name;
}

}  // namespace

void EpisodeTrace::Start(const ShapeMeta& shape_meta, std::size_t n_metrics) {
  keys_ = shape_meta.obs;
  n_steps_ = 0;
  columns_.clear();
  columns_["action"] = {.dtype = DType::kFloat32, .row_shape = shape_meta.action.shape};
  columns_["reward"] = {.dtype = DType::kFloat64, .row_shape = {}};
  columns_["terminated"] = {.dtype = DType::kUInt8, .row_shape = {}};
  columns_["success"] = {.dtype = DType::kUInt8, .row_shape = {}};
  columns_["metrics"] = {.dtype = DType::kFloat64,
                         .row_shape = {static_cast<std::int64_t>(n_metrics)}};
  columns_["obs_step"] = {.dtype = DType::kInt64, .row_shape = {}};
  for (const KeySpec& key : keys_) {
    columns_[ColumnOf(key)] = key.is_image()
                                  ? Column{.dtype = DType::kUInt8, .row_shape = {kDigestLength}}
                                  : Column{.dtype = key.dtype, .row_shape = key.shape};
  }
}

void EpisodeTrace::AddStep(std::span<const float> action, const StepResult& result) {
  AppendValues("action", action);
  AppendValues<double>("reward", {&result.reward, 1});
  AppendValues<bool>("terminated", {&result.terminated, 1});
  AppendValues<bool>("success", {&result.success, 1});
  AppendValues("metrics", result.metrics);
  ++n_steps_;
}

void EpisodeTrace::AddObservation() { AppendValues<std::int64_t>("obs_step", {&n_steps_, 1}); }

void EpisodeTrace::AddKey(int key, std::span<const std::byte> frame) {
  const KeySpec& spec = keys_[static_cast<std::size_t>(key)];
  if (spec.is_image()) {
    const std::string digest = core::Sha256Hex(frame);
    AppendValues<char>(ColumnOf(spec), digest);
  } else {
    Append(ColumnOf(spec), frame);
  }
}

ArrayMap EpisodeTrace::ToArrays() const {
  ArrayMap arrays;
  for (const auto& [name, column] : columns_) {
    Shape shape = column.row_shape;
    const bool is_of_observations = name.starts_with("obs");
    const auto& counter = columns_.at(is_of_observations ? "obs_step" : "reward");
    shape.insert(shape.begin(),
                 static_cast<std::int64_t>(counter.bytes.size() / SizeOf(counter.dtype)));
    Array array(column.dtype, shape);
    core::CopyBytes(column.bytes, array.bytes());
    arrays.emplace(name, std::move(array));
  }
  return arrays;
}

void EpisodeTrace::Append(const std::string& name, std::span<const std::byte> row) {
  std::vector<std::byte>& bytes = columns_.at(name).bytes;
  bytes.insert(bytes.end(), row.begin(), row.end());
}

template <class T>
void EpisodeTrace::AppendValues(const std::string& name, std::span<const T> row) {
  Append(name, std::as_bytes(row));
}

std::filesystem::path TraceFile(const std::string& split, std::uint64_t seed) {
  return std::filesystem::path("traces") / fmt::format("{}_{}.safetensors", split, seed);
}

}  // namespace dp_bench::run
