#include "evaluate/policy_planning.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <utility>

#include "core/clock.h"
#include "dp_bench/error.h"
#include "planner/policy_planner.h"
#include "planner/scope_timer.h"
#include "policy/stage_recorder.h"
#include "train/batches.h"

namespace dp_bench::evaluate {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxRecorded = 32;
constexpr std::size_t kMaxRecordedBytes = std::size_t{64} << 20;
constexpr int kWarmUp = 2;
constexpr int kMinPlans = 5;
constexpr int kMaxPlans = 48;
constexpr double kMaxSeconds = 5.0;

using torch::Tensor;

constexpr std::size_t kMaxSteps = 10;
constexpr std::int64_t kMaxDims = 12;

// The first row of [B, T, Da], as [T, D].
std::vector<std::vector<float>> ToRows(const Tensor& sample) {
  const std::int64_t n_dims = std::min(sample.size(2), kMaxDims);
  const Tensor row = sample[0].narrow(1, 0, n_dims).to(torch::kCPU, torch::kFloat32).contiguous();
  const float* values = row.const_data_ptr<float>();
  std::vector<std::vector<float>> rows;
  for (std::int64_t t = 0; t < row.size(0); ++t, values += n_dims) {
    rows.emplace_back(values, values + n_dims);
  }
  return rows;
}

// Relies on the order of the policy's stages: first the noise, then for each step its timestep,
// which belongs to the sample before it, and the sample that it makes.
class SampleCollector {
 public:
  void operator()(std::string_view name, const Tensor& tensor) {
    if (name == "noise" || name == "sample") steps_.push_back({.sample = ToRows(tensor)});
    if (name == "timestep" && !steps_.empty()) steps_.back().timestep = tensor.item<double>();
  }

  std::vector<run::DenoisingStep> TakeSteps() { return std::move(steps_); }

 private:
  std::vector<run::DenoisingStep> steps_;
};

bool IsFinite(const run::DenoisingStep& step) {
  return std::ranges::all_of(step.sample, [](const std::vector<float>& row) {
    return std::ranges::all_of(row, [](float value) { return std::isfinite(value); });
  });
}

std::vector<run::DenoisingStep> EvenlyChosen(std::vector<run::DenoisingStep> steps) {
  if (steps.size() <= kMaxSteps) return steps;
  std::vector<run::DenoisingStep> chosen;
  for (std::size_t i = 0; i < kMaxSteps; ++i) {
    chosen.push_back(std::move(steps[i * (steps.size() - 1) / (kMaxSteps - 1)]));
  }
  return chosen;
}

}  // namespace

void TimedPlanner::Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
                        std::span<float> actions) {
  const planner::ScopeTimer stages(device_);
  const auto start = Clock::now();
  planner_.Plan(obs, rows, actions);
  latency_.batch_size = batch_size();
  latency_.chunk_s.push_back(core::SecondsSince(start));
  for (const auto& [name, seconds] : stages.seconds()) {
    std::vector<double>& all = latency_.stage_s[name];
    all.insert(all.end(), seconds.begin(), seconds.end());
  }
  Keep(obs, rows.front());
}

void TimedPlanner::Keep(const control::ObsBatch& obs, const control::PlanRow& row) {
  if (recorded_.size() == kMaxRecorded || recorded_bytes_ >= kMaxRecordedBytes) return;
  control::RecordedObs kept{.obs = {}, .row = row};
  for (const auto& [key, batch] : obs) {
    Shape shape = batch.shape();
    const auto n_rows = static_cast<std::size_t>(std::exchange(shape.front(), 1));
    Array& array = kept.obs.emplace(key, Array(batch.dtype(), std::move(shape))).first->second;
    std::ranges::copy(batch.bytes().first(batch.byte_size() / n_rows), array.bytes().begin());
    recorded_bytes_ += array.byte_size();
  }
  recorded_.push_back(std::move(kept));
}

run::PlanningLatency MeasurePlanningAlone(Policy& policy, torch::Device device,
                                          std::span<const control::RecordedObs> rows) {
  DPB_ASSERT(!rows.empty());
  const Horizons& horizons = policy.spec().horizons;
  std::vector<float> actions(static_cast<std::size_t>(horizons.n_action_steps) *
                             static_cast<std::size_t>(policy.spec().shape_meta.action_dim()));
  planner::PolicyPlanner planner(policy, device, /*micro_batch=*/1);
  TimedPlanner timed(planner, device);
  for (int i = 0; i < kWarmUp; ++i) planner.Plan(rows[0].obs, {&rows[0].row, 1}, actions);
  const auto start = Clock::now();
  for (int i = 0; i < kMinPlans || (i < kMaxPlans && core::SecondsSince(start) < kMaxSeconds);
       ++i) {
    const control::RecordedObs& row = rows[static_cast<std::size_t>(i) % rows.size()];
    timed.Plan(row.obs, {&row.row, 1}, actions);
  }
  return timed.latency();
}

control::RecordedObs SyntheticObs(const PolicySpec& spec) {
  return {.obs = train::SyntheticBatch(spec, /*n_rows=*/1).obs, .row = {}};
}

std::optional<run::Denoising> RecordDenoising(Policy& policy, torch::Device device,
                                              const control::RecordedObs& recorded) {
  const Horizons& horizons = policy.spec().horizons;
  const auto action_dim = static_cast<int>(policy.spec().shape_meta.action_dim());
  std::vector<float> actions(static_cast<std::size_t>(horizons.n_action_steps * action_dim));
  SampleCollector collector;
  {
    const policy::StageRecorder recorder(std::ref(collector));
    planner::PolicyPlanner(policy, device, /*micro_batch=*/1)
        .Plan(recorded.obs, {&recorded.row, 1}, actions);
  }
  std::vector<run::DenoisingStep> steps = collector.TakeSteps();
  if (steps.size() < 2 || !std::ranges::all_of(steps, IsFinite)) return std::nullopt;
  return run::Denoising{.seed = recorded.row.seed,
                        .env_step = recorded.row.env_step,
                        .n_steps = static_cast<int>(steps.size()) - 1,
                        .first_executed = horizons.n_obs_steps - 1,
                        .n_executed = horizons.n_action_steps,
                        .action_dim = action_dim,
                        .steps = EvenlyChosen(std::move(steps))};
}

}  // namespace dp_bench::evaluate
