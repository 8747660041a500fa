// Plans for batches of observation windows that a caller gathered, outside of any episode.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "control/chunk_planner.h"
#include "control/obs_history.h"
#include "control/obs_input.h"
#include "dp_bench/deploy.h"
#include "dp_bench/spec.h"

namespace dp_bench::control {

class BatchPlanner {
 public:
  /// `planner` must outlive this object.
  BatchPlanner(ChunkPlanner& planner, const ShapeMeta& shape_meta, const Horizons& horizons);

  /// See Controller::Predict.
  void Plan(std::span<const ObsView> obs, std::span<const std::uint64_t> seeds,
            std::span<float> chunks, std::span<const std::uint64_t> steps = {});

 private:
  void CopyRow(std::span<const ObsView> obs, std::size_t row, std::size_t place);

  ChunkPlanner& planner_;
  int n_obs_steps_;
  std::int64_t action_dim_;
  std::size_t chunk_size_;  // Ta * Da
  ObsInput input_;
  ObsHistory history_;
  ObsBatch obs_;
  std::vector<float> chunks_;  // [M, Ta, Da]
};

}  // namespace dp_bench::control
