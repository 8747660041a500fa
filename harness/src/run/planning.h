// How a policy plans: how long planning takes (latency.json), and how one plan was denoised
// (denoising.json).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine.h"

namespace dp_bench::run {

/// Percentiles by nearest rank, so each is a measured time.
struct LatencySummary {
  int n = 0;
  double p50_s = 0.0;
  double p95_s = 0.0;
  double p99_s = 0.0;
  double max_s = 0.0;
};

/// All zero for an empty list.
LatencySummary SummarizeLatency(std::vector<double> seconds);

/// The fraction of times above `deadline_s`; 0 for an empty list.
double ShareLate(std::span<const double> seconds, double deadline_s);

/// {n, p50_ms, p95_ms, p99_ms, max_ms}
nlohmann::json ToJson(const LatencySummary& summary);

/// Times of planning chunks at one batch size. On a GPU, a stage is the time that the host waits in
/// it.
struct PlanningLatency {
  int batch_size = 0;
  std::vector<double> chunk_s;                         // whole chunks, in order of planning
  std::map<std::string, std::vector<double>> stage_s;  // by the policy's stage name, for all chunks
};

/// Planning times of a policy, and the env's control rate.
struct PolicyLatency {
  double control_hz = 0.0;
  PlanningLatency alone;           // batch 1, as on a robot, measured separately
  bool is_of_recorded_obs = true;  // `alone` was measured on observations of the rollouts
  PlanningLatency in_rollouts;     // padded micro-batches; empty: nothing was planned
  std::optional<core::MachineLoad> load = std::nullopt;  // of the machine meanwhile
};

struct PlanningSummary {
  int batch_size = 0;
  LatencySummary chunk;
  double share_late = 0.0;                       // of the chunks
  std::map<std::string, LatencySummary> stages;  // by the policy's stage name
};

/// The summary that latency.json, the terminal and report.html show.
struct PolicyLatencySummary {
  double control_hz = 0.0;
  double deadline_s = 0.0;  // time between two env steps
  PlanningSummary alone;
  bool is_of_recorded_obs = true;
  std::optional<PlanningSummary> in_rollouts;
  std::optional<core::MachineLoad> load = std::nullopt;  // none in older files
};

PolicyLatencySummary Summarize(const PolicyLatency& latency);

/// {control_hz, deadline_ms, batch_1: {batch_size, observations, chunk, share_late, stages},
/// rollouts: the same or null, load_average, n_processors}; chunk and each stage as above.
nlohmann::json ToJson(const PolicyLatencySummary& latency);

/// The inverse of ToJson. Throws Error{kData} naming `origin` if the text is not a latency.json.
PolicyLatencySummary ParseLatency(std::string_view text, const std::string& origin);

/// The action sequence at one step of the denoising.
struct DenoisingStep {
  std::optional<double> timestep;  // noise level; none: the end, or the policy has no timesteps
  std::vector<std::vector<float>> sample;  // [T, D], normalized
};

struct Denoising {
  std::uint64_t seed = 0;      // of the episode
  std::uint64_t env_step = 0;  // steps executed before the plan
  int n_steps = 0;             // calls of the denoiser
  int first_executed = 0;      // To - 1: rows [first_executed, first_executed + n_executed) of the
  int n_executed = 0;          // Ta    last sample are the action chunk
  int action_dim = 0;          // Da; the samples have its first D
  std::vector<DenoisingStep> steps;  // including the noise and the plan
};

/// A timestep of a diffusion is written as an integer; the time of another objective may be none.
nlohmann::json TimestepJson(double timestep);

/// {seed, env_step, n_steps, first_executed, n_executed, action_dim, steps: [{timestep, sample}]},
/// with samples rounded to 4 decimals.
nlohmann::json ToJson(const Denoising& denoising);

/// The inverse of ToJson. Throws Error{kData} naming `origin` if the text is not a denoising.json
/// or the samples differ in shape.
Denoising ParseDenoising(std::string_view text, const std::string& origin);

struct PlanningRecord {
  PolicyLatency latency;
  std::optional<Denoising> denoising;  // none: no episode, or the policy does not denoise
};

/// Writes latency.json and denoising.json. A record without rollouts does not overwrite an existing
/// latency.json. A record without a denoising removes an existing denoising.json. Throws
/// Error{kIo}.
void WritePlanning(const std::filesystem::path& folder, const PlanningRecord& record);

}  // namespace dp_bench::run
