// How a policy plans, besides what comes of it: how long it takes (latency.json), and how one plan
// emerged from noise (denoising.json).
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

namespace dp_bench::run {

/// Percentiles by nearest rank: each is a time that occurred [s].
struct LatencySummary {
  int n = 0;
  double p50_s = 0.0;
  double p95_s = 0.0;
  double p99_s = 0.0;
  double max_s = 0.0;
};

/// All zero without times.
LatencySummary SummarizeLatency(std::vector<double> seconds);

/// The fraction of times beyond `deadline_s`; 0 without times.
double ShareLate(std::span<const double> seconds, double deadline_s);

/// {n, p50_ms, p95_ms, p99_ms, max_ms}
nlohmann::json ToJson(const LatencySummary& summary);

/// What planning chunks at one batch size took. On a GPU a stage is what the host waits for in it.
struct PlanningLatency {
  int batch_size = 0;
  std::vector<double> chunk_s;                         // whole chunks, in the order planned
  std::map<std::string, std::vector<double>> stage_s;  // that the policy names; those of all chunks
};

/// How long a policy thinks, against the rate at which the env is controlled.
struct PolicyLatency {
  double control_hz = 0.0;
  PlanningLatency alone;           // batch 1, what a robot waits for, measured by itself
  bool is_of_recorded_obs = true;  // `alone` looked at observations of the rollouts
  PlanningLatency in_rollouts;     // micro-batches with their padding; empty: none were planned
};

/// A PlanningLatency in a few numbers.
struct PlanningSummary {
  int batch_size = 0;
  LatencySummary chunk;
  double share_late = 0.0;                       // of the chunks
  std::map<std::string, LatencySummary> stages;  // by the policy's names
};

/// A PolicyLatency in a few numbers: what latency.json, the terminal and report.html show.
struct PolicyLatencySummary {
  double control_hz = 0.0;
  double deadline_s = 0.0;  // until the next env step: a robot that plans between two steps
                            // must be done by then
  PlanningSummary alone;
  bool is_of_recorded_obs = true;
  std::optional<PlanningSummary> in_rollouts;
};

PolicyLatencySummary Summarize(const PolicyLatency& latency);

/// {control_hz, deadline_ms, batch_1: {batch_size, observations, chunk, share_late, stages},
/// rollouts: the same or null}; chunk and each stage as above.
nlohmann::json ToJson(const PolicyLatencySummary& latency);

/// The inverse. Throws Error{kData} naming `origin` when the text is something else.
PolicyLatencySummary ParseLatency(std::string_view text, const std::string& origin);

/// The action sequence at one point of its way.
struct DenoisingStep {
  std::optional<int> timestep;             // of its noise; none: the end, or the policy names none
  std::vector<std::vector<float>> sample;  // [T, D], normalized
};

struct Denoising {
  std::uint64_t seed = 0;      // of the episode whose observation was planned for
  std::uint64_t env_step = 0;  // its steps executed before
  int n_steps = 0;             // calls of the denoiser
  int first_executed = 0;      // To - 1: rows [first_executed, first_executed + n_executed) of the
  int n_executed = 0;          // Ta    last sample are the action chunk
  int action_dim = 0;          // Da; the samples have its first D
  std::vector<DenoisingStep> steps;  // the noise and the plan among them
};

/// {seed, env_step, n_steps, first_executed, n_executed, action_dim, steps: [{timestep, sample}]},
/// numbers of the samples to 4 decimals.
nlohmann::json ToJson(const Denoising& denoising);

/// The inverse. Throws Error{kData} naming `origin` when the text is something else, or its samples
/// differ in shape.
Denoising ParseDenoising(std::string_view text, const std::string& origin);

struct PlanningRecord {
  PolicyLatency latency;
  std::optional<Denoising> denoising;  // none: there is no episode, or the policy does not denoise
};

/// Writes latency.json and denoising.json. A record that knows nothing of the rollouts leaves a
/// latency.json that is there; one without a denoising removes that of another evaluation. Throws
/// Error{kIo}.
void WritePlanning(const std::filesystem::path& folder, const PlanningRecord& record);

}  // namespace dp_bench::run
