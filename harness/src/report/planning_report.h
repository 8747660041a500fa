// How the policy of an evaluation plans, for the terminal and for report.html.
#pragma once

#include <kainjow/mustache.hpp>
#include <string>

#include "run/planning.h"

namespace dp_bench::report {

/// Percentiles of chunks and stages, and the share of late chunks. Ends with a line break.
std::string LatencyTable(const run::PolicyLatencySummary& latency);

/// {control_hz, deadline, tables: [{title, late, rows: [{name, n, p50_ms, p95_ms, p99_ms,
/// max_ms}]}]}
kainjow::mustache::data LatencyData(const run::PolicyLatencySummary& latency);

/// The denoising of one plan as a row of small plots: {seed, env_step, n_steps, horizon, dims, low,
/// high, panels: [{label, svg, is_plan}]}
kainjow::mustache::data DenoisingData(const run::Denoising& denoising);

}  // namespace dp_bench::report
