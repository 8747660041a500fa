#include "planner/recording_planner.h"

#include <vector>

namespace dp_bench::planner {

void RecordingPlanner::Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
                            std::span<float> actions) {
  planner_->Plan(obs, rows, actions);
  std::vector<std::string> faults;
  for (std::size_t row = 0; row < rows.size(); ++row) faults.push_back(planner_->FaultOf(row));
  record_->Add(obs, rows, faults, actions, chunk_shape_);
}

}  // namespace dp_bench::planner
