// Correction of chunks at every control step (A2C2, Sendai et al. 2025, arXiv 2509.23224): a small
// network adds to the action of a chunk what the newest observation says about it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "control/chunk_planner.h"
#include "dp_bench/array.h"
#include "dp_bench/spec.h"

namespace dp_bench::control {

/// A multilayer perceptron with ReLU between its layers, in plain C++: the same bits everywhere.
/// Its inputs are, in this order, the last To observations of each low_dim key of shape_meta, the
/// action of the chunk, and its place in the chunk from 0 to 1; all but the last are normalized by
/// mean and deviation. Its output, times the deviation of the actions, is added to the action.
class CorrectionHead {
 public:
  /// `tensors`: <n>.weight [out, in] and <n>.bias [out] for n = 0, 1, ...; input.mean and input.std
  /// [in - 1]; all float32. Throws Error{kCheckpoint} naming `origin` and the tensor that does not
  /// fit these shapes and horizons.
  CorrectionHead(const ArrayMap& tensors, const ShapeMeta& shape_meta, const Horizons& horizons,
                 const std::string& origin);

  /// The inputs before normalization for row 0 of `obs`, [To, D] of each key. `place`: of the
  /// action in its chunk.
  void Gather(const ObsBatch& obs, std::span<const float> action, int place,
              std::vector<float>* inputs) const;

  /// What a layer takes and gives.
  struct LayerValues {
    std::vector<float> in;
    std::vector<float> out;
  };

  /// With room for each layer.
  LayerValues MakeLayerValues() const;

  /// Adds the correction to `action`, [Da]. Allocates nothing if `values` are from MakeLayerValues.
  /// Not for several threads at once with one `values`.
  void Correct(const ObsBatch& obs, int place, std::span<float> action, LayerValues* values) const;

 private:
  struct Layer {
    std::vector<float> weights;  // [in, out]
    std::vector<float> bias;     // [out]
  };

  std::vector<std::string> keys_;  // low_dim, in the order of shape_meta
  int n_action_steps_;
  std::size_t action_dim_;
  std::vector<float> mean_;  // [in - 1]
  std::vector<float> std_;
  std::vector<Layer> layers_;
};

/// The numbers that CorrectionHead takes, without those of the normalization: F * To + Da + 1.
std::int64_t CorrectionInputs(const ShapeMeta& shape_meta, const Horizons& horizons);

}  // namespace dp_bench::control
