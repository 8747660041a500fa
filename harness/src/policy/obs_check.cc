// See obs_check.h.
#include "policy/obs_check.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/errors.h"

namespace dp_bench::policy {
namespace {

// The shape in the form that the user reads: "[B, 2, 5] float32".
std::string Wanted(const Shape& after_batch, torch::ScalarType type) {
  std::string text = "[B";
  for (const std::int64_t size : after_batch) text += fmt::format(", {}", size);
  return fmt::format("{}] {}", text, c10::toString(type));
}

void CheckTensor(std::string_view name, const torch::Tensor& tensor, const Shape& after_batch,
                 torch::ScalarType type, std::int64_t batch) {
  Shape wanted = {batch};
  wanted.insert(wanted.end(), after_batch.begin(), after_batch.end());
  if (tensor.defined() && tensor.sizes() == wanted && tensor.scalar_type() == type) return;

  const std::string found = tensor.defined() ? fmt::format("{} {}", ToString(tensor.sizes()),
                                                           c10::toString(tensor.scalar_type()))
                                             : "nothing";
  throw ShapeError("'{}' must be {} with B = {}, found {}", name, Wanted(after_batch, type), batch,
                   found);
}

}  // namespace

std::int64_t CheckObs(const TensorMap& obs, const PolicySpec& spec, int n_steps) {
  std::int64_t batch = -1;
  for (const KeySpec& key : spec.shape_meta.obs) {
    const auto entry = obs.find(key.name);
    if (entry == obs.end()) {
      std::string keys;
      for (const auto& [name, tensor] : obs) keys += (keys.empty() ? "" : ", ") + name;
      throw ShapeError("observation '{}' of shape_meta is missing; found: {}", key.name,
                       keys.empty() ? "nothing" : keys);
    }
    const torch::Tensor& tensor = entry->second;
    if (batch < 0) batch = tensor.defined() && tensor.dim() > 0 ? tensor.size(0) : 0;
    Shape after_batch = {n_steps};
    after_batch.insert(after_batch.end(), key.shape.begin(), key.shape.end());
    CheckTensor(key.name, tensor, after_batch, ToScalarType(key.dtype), batch);
  }
  return batch;
}

void CheckBatch(const Batch& batch, const PolicySpec& spec, int n_obs_steps,
                const NoiseSource& noise) {
  const std::int64_t rows = CheckObs(batch.obs, spec, n_obs_steps);
  const std::int64_t horizon = spec.horizons.horizon;
  CheckTensor("action", batch.action, {horizon, spec.shape_meta.action_dim()}, torch::kFloat32,
              rows);
  CheckTensor("is_pad", batch.is_pad, {horizon}, torch::kBool, rows);
  if (noise.batch_size() != rows) {
    throw ShapeError("the batch has {} rows, its noise source {}", rows, noise.batch_size());
  }
}

}  // namespace dp_bench::policy
