// See batch_planner.h. Rows take the same way as the observations of an episode: the same checks,
// the same micro-batch.
#include "control/batch_planner.h"

#include <algorithm>

#include "core/errors.h"

namespace dp_bench::control {
namespace {

void RequireBatch(const ObsView& view, std::size_t n_rows, int n_obs_steps) {
  const std::span<const std::int64_t> shape = view.shape.values();
  if (shape.size() < 2 || shape[0] != static_cast<std::int64_t>(n_rows) ||
      shape[1] != n_obs_steps) {
    throw ShapeError(
        "the observation '{}' has shape {}, expected [{}, {}, ...]: a row for each seed, and the "
        "observed steps",
        view.key, ToString(shape), n_rows, n_obs_steps);
  }
}

// The bytes from one index of a dimension to the next.
std::vector<std::int64_t> StridesOf(const ObsView& view) {
  const std::span<const std::int64_t> given = view.strides.values();
  if (!given.empty()) return {given.begin(), given.end()};
  const std::span<const std::int64_t> shape = view.shape.values();
  std::vector<std::int64_t> strides(shape.size());
  auto stride = static_cast<std::int64_t>(SizeOf(view.dtype));
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

// One step of one row.
ObsView StepOf(const ObsView& view, std::size_t row, int step) {
  const std::vector<std::int64_t> strides = StridesOf(view);
  if (strides.size() != view.shape.values().size()) {
    throw ShapeError(
        "the observation '{}' has {} strides, expected {}, one for each dimension, or none",
        view.key, strides.size(), view.shape.values().size());
  }
  const auto* first = static_cast<const std::byte*>(view.data);
  if (first != nullptr) first += static_cast<std::int64_t>(row) * strides[0] + step * strides[1];
  return {view.key, first, view.dtype, Dims(view.shape.values().subspan(2)),
          Dims(std::span(strides).subspan(2))};
}

}  // namespace

BatchPlanner::BatchPlanner(ChunkPlanner& planner, const ShapeMeta& shape_meta,
                           const Horizons& horizons)
    : planner_(planner),
      n_obs_steps_(horizons.n_obs_steps),
      action_dim_(shape_meta.action_dim()),
      chunk_size_(static_cast<std::size_t>(horizons.n_action_steps * action_dim_)),
      input_(shape_meta.obs),
      history_(shape_meta.obs, horizons.n_obs_steps),
      obs_(MakeObsBatch(shape_meta.obs, planner.batch_size(), horizons.n_obs_steps)),
      chunks_(static_cast<std::size_t>(planner.batch_size()) * chunk_size_) {}

void BatchPlanner::Plan(std::span<const ObsView> obs, std::span<const std::uint64_t> seeds,
                        std::span<float> chunks, std::span<const std::uint64_t> steps) {
  if (!steps.empty() && steps.size() != seeds.size()) {
    throw UsageError("there are {} steps, expected {}, one for each seed, or none", steps.size(),
                     seeds.size());
  }
  if (chunks.size() != seeds.size() * chunk_size_) {
    throw UsageError("there is room for {} numbers, expected {}: {} chunks of {}", chunks.size(),
                     seeds.size() * chunk_size_, seeds.size(), chunk_size_);
  }
  for (const ObsView& view : obs) RequireBatch(view, seeds.size(), n_obs_steps_);
  const auto batch_size = static_cast<std::size_t>(planner_.batch_size());
  std::vector<PlanRow> rows;
  for (std::size_t begin = 0; begin < seeds.size(); begin += batch_size) {
    const std::size_t n = std::min(batch_size, seeds.size() - begin);
    rows.clear();
    for (std::size_t place = 0; place < n; ++place) {
      CopyRow(obs, begin + place, place);
      rows.push_back(
          {.seed = seeds[begin + place], .env_step = steps.empty() ? 0 : steps[begin + place]});
    }
    RepeatFirstRow(n, &obs_);
    planner_.Plan(obs_, rows, chunks_);
    const auto found = std::span(chunks_).first(n * chunk_size_);
    for (std::size_t i = 0; i < n; ++i) {
      const auto fault = NonFiniteAction(found.subspan(i * chunk_size_, chunk_size_), action_dim_);
      if (!fault) continue;
      throw NumericError("the policy planned a {} in row {}", *fault, begin + i);
    }
    std::ranges::copy(found, chunks.begin() + static_cast<std::ptrdiff_t>(begin * chunk_size_));
  }
}

void BatchPlanner::CopyRow(std::span<const ObsView> obs, std::size_t row, std::size_t place) {
  std::vector<ObsView> views;
  for (int step = 0; step < n_obs_steps_; ++step) {
    views.clear();
    for (const ObsView& view : obs) views.push_back(StepOf(view, row, step));
    input_.CopyTo(&history_, views);
    history_.Push();
  }
  history_.CopyWindows(place, &obs_);
}

}  // namespace dp_bench::control
