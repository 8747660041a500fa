#include "evaluate/policy_planning.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "core/clock.h"
#include "core/copy_bytes.h"
#include "core/errors.h"
#include "dp_bench/error.h"
#include "planner/policy_planner.h"
#include "planner/scope_timer.h"
#include "train/batches.h"

namespace dp_bench::evaluate {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxRecorded = 32;
constexpr std::size_t kMaxRecordedBytes = std::size_t{64} << 20;
constexpr int kWarmUp = 2;
constexpr int kMinPlans = 10;
constexpr int kMaxPlans = 48;
constexpr double kMaxSeconds = 0.2;  // with 1.0, a fifth of an evaluation of 50 episodes

// Whether one of the first `n_rows` rows of the last plan has no actions.
bool HasFault(const control::ChunkPlanner& planner, std::size_t n_rows) {
  for (std::size_t row = 0; row < n_rows; ++row) {
    if (!planner.FaultOf(row).empty()) return true;
  }
  return false;
}

}  // namespace

void TimedPlanner::Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
                        std::span<float> actions) {
  const planner::ScopeTimer stages(device_);
  const auto start = Clock::now();
  planner_.Plan(obs, rows, actions);
  latency_.batch_size = batch_size();
  if (HasFault(planner_, rows.size())) return;  // the time of a refused connection says nothing
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
  kept.row.committed = {};  // valid only now
  for (const auto& [key, batch] : obs) {
    Shape shape = batch.shape();
    const auto n_rows = static_cast<std::size_t>(std::exchange(shape.front(), 1));
    Array& array = kept.obs.emplace(key, Array(batch.dtype(), std::move(shape))).first->second;
    core::CopyBytes(batch.bytes().first(batch.byte_size() / n_rows), array.bytes());
    recorded_bytes_ += array.byte_size();
  }
  recorded_.push_back(std::move(kept));
}

run::PlanningLatency MeasurePlanningAlone(Policy& policy, torch::Device device,
                                          const control::ChunkingConfig& chunking,
                                          std::span<const control::RecordedObs> rows) {
  DPB_ASSERT(!rows.empty());
  const Horizons& horizons = policy.spec().horizons;
  std::vector<float> actions(static_cast<std::size_t>(horizons.n_action_steps) *
                             static_cast<std::size_t>(policy.spec().shape_meta.action_dim()));
  const std::unique_ptr<control::ChunkPlanner> planner =
      planner::MakePlanner(policy, device, /*micro_batch=*/1, chunking);
  TimedPlanner timed(*planner, device);
  for (int i = 0; i < kWarmUp; ++i) {
    const control::PlanRow first = {.seed = rows[0].row.seed};
    planner->Plan(rows[0].obs, {&first, 1}, actions);
    // a server that hangs costs its timeout only once
    if (HasFault(*planner, 1)) return {.batch_size = 1, .chunk_s = {}, .stage_s = {}};
  }
  const auto start = Clock::now();
  for (int i = 0; i < kMinPlans || (i < kMaxPlans && core::SecondsSince(start) < kMaxSeconds);
       ++i) {
    const control::RecordedObs& row = rows[static_cast<std::size_t>(i) % rows.size()];
    const control::PlanRow first = {.seed = row.row.seed};  // servers have forgotten the episode
    timed.Plan(row.obs, {&first, 1}, actions);
    if (HasFault(*planner, 1)) break;
  }
  return timed.latency();
}

run::LatencySummary RequireLatencyAlone(Policy& policy, torch::Device device,
                                        const control::ChunkingConfig& chunking,
                                        std::span<const control::RecordedObs> rows) {
  const run::LatencySummary latency =
      run::SummarizeLatency(MeasurePlanningAlone(policy, device, chunking, rows).chunk_s);
  if (latency.n > 0) return latency;
  const std::vector<std::string> faults = policy.RowFaults();
  throw EnvError("the latency of the policy cannot be measured: {}",
                 faults.empty() ? "it gave no actions" : faults.front());
}

control::RecordedObs SyntheticObs(const PolicySpec& spec) {
  return {.obs = train::SyntheticBatch(spec, /*n_rows=*/1).obs, .row = {}};
}

}  // namespace dp_bench::evaluate
