// The source of the EnvRunner's action chunks: a policy, a recorded episode, a test double. It does
// not use LibTorch, so that the runner can be tested without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dp_bench/array.h"

namespace dp_bench::control {

/// Key of shape_meta.obs -> [M, To, storage shape], oldest step first: low_dim float32, rgb uint8
/// [H, W, C].
using ObsBatch = ArrayMap;

/// One row of a batch. Its random draws depend only on the first three numbers.
struct PlanRow {
  std::uint64_t seed = 0;      // of the episode
  std::uint64_t env_step = 0;  // steps the episode has executed so far
  std::uint32_t sample = 0;    // tells several plans of the same step apart

  /// What the robot executes unless it gets a new plan: [n, Da] in raw units, n <= Ta, the action
  /// of the current step first. Empty at the beginning of an episode. Valid during a plan.
  std::span<const float> committed = {};
  int delay = 0;  // of these, those that are executed before the plan is there
};

/// One row of a batch: [1, To, ...] of each key, and the source of its noise.
struct RecordedObs {
  ObsBatch obs;
  PlanRow row;
};

/// Turns observation windows into action chunks, always in a micro-batch of the same size M,
/// because the low bits of a network's output depend on its batch size. Called from one thread.
class ChunkPlanner {
 public:
  ChunkPlanner(const ChunkPlanner&) = delete;
  ChunkPlanner& operator=(const ChunkPlanner&) = delete;
  virtual ~ChunkPlanner() = default;

  /// M; constant.
  virtual int batch_size() const = 0;

  /// Rows [0, rows.size()) of `obs` are real, 1 <= rows.size() <= M; the others are copies of the
  /// first, and their results are ignored. `actions`: [M, Ta, Da] in raw units; chunk step 0 is
  /// executed at the current step. Row i must depend only on obs row i and rows[i].
  virtual void Plan(const ObsBatch& obs, std::span<const PlanRow> rows,
                    std::span<float> actions) = 0;

  /// Why row `row` of the last plan has no actions: they are NaN. "": it has.
  virtual std::string FaultOf(std::size_t /*row*/) const { return ""; }

  /// The planner to ask what no episode asks: its plans are in no record.
  virtual ChunkPlanner& Unrecorded() { return *this; }

 protected:
  ChunkPlanner() = default;
};

/// Describes the first action of a chunk [Ta, Da] that is NaN or Inf; none if all are finite.
std::optional<std::string> NonFiniteAction(std::span<const float> chunk, std::int64_t action_dim);

}  // namespace dp_bench::control
