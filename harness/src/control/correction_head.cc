#include "control/correction_head.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/errors.h"

namespace dp_bench::control {
namespace {

std::vector<float> TensorOf(const ArrayMap& tensors, const std::string& name, const Shape& wanted,
                            const std::string& origin) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    throw CheckpointError("{}: expected the tensor {}, found none", origin, name);
  }
  const Array& array = found->second;
  if (array.dtype() != DType::kFloat32 || array.shape() != wanted) {
    throw CheckpointError("{}: {} has the shape {}, expected float32 {}", origin, name,
                          ToString(array.shape()), ToString(wanted));
  }
  const auto values = array.as<float>();
  return {values.begin(), values.end()};
}

// [out, in] to [in, out].
std::vector<float> Transposed(const std::vector<float>& weights, std::size_t n_in) {
  const std::size_t n_out = n_in > 0 ? weights.size() / n_in : 0;
  std::vector<float> transposed(weights.size());
  for (std::size_t o = 0; o < n_out; ++o) {
    for (std::size_t i = 0; i < n_in; ++i) transposed[i * n_out + o] = weights[o * n_in + i];
  }
  return transposed;
}

std::string LayerTensor(std::size_t layer, const char* part) {
  return fmt::format("{}.{}", layer, part);
}

}  // namespace

std::int64_t CorrectionInputs(const ShapeMeta& shape_meta, const Horizons& horizons) {
  std::int64_t n_inputs = shape_meta.action_dim() + 1;
  for (const KeySpec& key : shape_meta.obs) {
    if (key.type == KeyType::kLowDim) n_inputs += horizons.n_obs_steps * key.NumElements();
  }
  return n_inputs;
}

CorrectionHead::CorrectionHead(const ArrayMap& tensors, const ShapeMeta& shape_meta,
                               const Horizons& horizons, const std::string& origin)
    : n_action_steps_(horizons.n_action_steps),
      action_dim_(static_cast<std::size_t>(shape_meta.action_dim())) {
  for (const KeySpec& key : shape_meta.obs) {
    if (key.type == KeyType::kLowDim) keys_.push_back(key.name);
  }
  std::int64_t n_in = CorrectionInputs(shape_meta, horizons);
  mean_ = TensorOf(tensors, "input.mean", {n_in - 1}, origin);
  std_ = TensorOf(tensors, "input.std", {n_in - 1}, origin);
  for (std::size_t i = 0; tensors.contains(LayerTensor(i, "bias")); ++i) {
    const Shape& shape = tensors.find(LayerTensor(i, "bias"))->second.shape();
    const std::int64_t n_out = shape.size() == 1 ? shape[0] : 0;
    if (n_out < 1) throw CheckpointError("{}: {}.bias is empty", origin, i);
    const std::vector<float> weights =
        TensorOf(tensors, LayerTensor(i, "weight"), {n_out, n_in}, origin);
    layers_.push_back({.weights = Transposed(weights, static_cast<std::size_t>(n_in)),
                       .bias = TensorOf(tensors, LayerTensor(i, "bias"), {n_out}, origin)});
    n_in = n_out;
  }
  if (layers_.empty() || n_in != shape_meta.action_dim()) {
    throw CheckpointError("{}: expected layers whose last one has {} outputs, found {} with {}",
                          origin, shape_meta.action_dim(), layers_.size(), n_in);
  }
}

void CorrectionHead::Gather(const ObsBatch& obs, std::span<const float> action, int place,
                            std::vector<float>* inputs) const {
  inputs->clear();
  for (const std::string& key : keys_) {
    const Array& frames = obs.find(key)->second;
    const auto n = frames.as<float>().size() / static_cast<std::size_t>(frames.shape()[0]);
    const auto row = frames.as<float>().first(n);
    inputs->insert(inputs->end(), row.begin(), row.end());
  }
  inputs->insert(inputs->end(), action.begin(), action.end());
  inputs->push_back(static_cast<float>(place) / static_cast<float>(n_action_steps_));
}

CorrectionHead::LayerValues CorrectionHead::MakeLayerValues() const {
  std::size_t widest = std_.size() + 1;
  for (const Layer& layer : layers_) widest = std::max(widest, layer.bias.size());
  LayerValues values;
  values.in.reserve(widest);
  values.out.reserve(widest);
  return values;
}

void CorrectionHead::Correct(const ObsBatch& obs, int place, std::span<float> action,
                             LayerValues* values) const {
  auto& [in, out] = *values;
  Gather(obs, action, place, &in);
  for (std::size_t i = 0; i < mean_.size(); ++i) in[i] = (in[i] - mean_[i]) / std_[i];
  for (const Layer& layer : layers_) {
    out.assign(layer.bias.begin(), layer.bias.end());
    // output by output in the inner loop: each sum keeps its order, and the processor adds several
    const float* weight = layer.weights.data();
    for (const float value : std::span(in).first(layer.weights.size() / out.size())) {
      for (float& sum : out) sum += *weight++ * value;
    }
    if (&layer != &layers_.back()) {
      for (float& value : out) value = std::max(value, 0.0F);
    }
    in.swap(out);
  }
  const std::size_t first_action = std_.size() - action_dim_;
  for (std::size_t d = 0; d < action_dim_; ++d) action[d] += in[d] * std_[first_action + d];
}

}  // namespace dp_bench::control
