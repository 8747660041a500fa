// What the layers of a policy look at, as text, JSON and a page. Torch-free.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace dp_bench::inspect {

/// [rows][columns]; each row adds up to 1.
using AttentionShares = std::vector<std::vector<double>>;

/// Element by element.
AttentionShares Averaged(const std::vector<AttentionShares>& all);

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

/// The averages, and the three columns that each head looks at most.
std::string ToText(const AttentionInspection& inspection);

/// All numbers.
nlohmann::json ToJson(const AttentionInspection& inspection);

/// Heat maps; a page without other files.
void WriteAttentionPage(const AttentionInspection& inspection, const std::filesystem::path& file);

}  // namespace dp_bench::inspect
