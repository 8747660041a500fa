// Where a policy looks: the attention weights of its layers while it plans one action chunk. A
// policy reports them as stages (dp_bench/stage_trace.h) when it samples:
//   "attention: <place>, <rows> to <columns>"  [B, n_head, rows, columns]
//   "condition part: <observation>"            [B, To, D], the parts of the condition in order
//   "transformer: observation embedding"       [d, Do], condition of a step -> condition token
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "control/chunk_planner.h"
#include "dp_bench/dataset.h"
#include "dp_bench/policy.h"

namespace dp_bench::inspect {

/// [rows][columns]; each row adds up to 1.
using AttentionShares = std::vector<std::vector<double>>;

/// What the tokens of one attention look at, averaged over the denoising steps.
struct AttentionMap {
  std::string name;                  // "decoder layer 1, actions to condition"
  std::vector<std::string> rows;     // "action t", "colour of head_cam, t-1"
  std::vector<std::string> columns;  // "timestep", "agent_pos t-1", "action t+3"
  std::vector<AttentionShares> heads;

  AttentionShares Mean() const;
  bool is_to_condition() const { return name.ends_with("actions to condition"); }
};

struct AttentionInspection {
  std::string policy;
  std::string task;
  std::string observation;          // "the first observation of seed 100000"
  std::size_t n_steps = 0;          // denoising steps
  std::vector<AttentionMap> maps;   // in the order of the data flow
  std::vector<AttentionMap> means;  // over all layers and heads; by denoising step. Empty unless
                                    // the actions attend to the condition
};

/// Plans one chunk for `recorded` and collects what the policy attends to. Throws Error{kUsage} if
/// the policy reports no attention.
AttentionInspection InspectAttention(Policy& policy, torch::Device device,
                                     const control::RecordedObs& recorded);

/// The observations of a demonstration up to `step`, with the noise that a rollout of seed 0 has.
/// Throws Error{kUsage} if there is no such step.
control::RecordedObs ObsOfDemonstration(const Dataset& dataset, const PolicySpec& spec,
                                        std::int64_t episode, std::int64_t step);

/// The averages, and the three columns that each head looks at most.
std::string ToText(const AttentionInspection& inspection);

/// All numbers.
nlohmann::json ToJson(const AttentionInspection& inspection);

/// Heat maps; a page without other files.
void WriteAttentionPage(const AttentionInspection& inspection, const std::filesystem::path& file);

}  // namespace dp_bench::inspect
