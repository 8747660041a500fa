#include "control/bid_planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace dp_bench::control {

BidPlanner::BidPlanner(std::unique_ptr<ChunkPlanner> planner, int n_samples, int n_action_steps,
                       std::int64_t action_dim)
    : planner_(std::move(planner)),
      n_samples_(n_samples),
      n_action_steps_(n_action_steps),
      action_dim_(static_cast<std::size_t>(action_dim)) {}

void BidPlanner::Plan(const ObsBatch& obs, std::span<const PlanRow> rows,
                      std::span<float> actions) {
  const std::size_t chunk_size = static_cast<std::size_t>(n_action_steps_) * action_dim_;
  std::vector<PlanRow> of_sample(rows.begin(), rows.end());
  std::vector<float> chunks(actions.size());
  std::vector<double> least(rows.size(), std::numeric_limits<double>::infinity());
  faults_.assign(rows.size(), "");
  for (int sample = 0; sample < n_samples_; ++sample) {
    for (PlanRow& row : of_sample) row.sample = static_cast<std::uint32_t>(sample);
    planner_->Plan(obs, of_sample, chunks);
    if (sample == 0) std::ranges::copy(chunks, actions.begin());  // also the padding rows
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (sample == 0) faults_[i] = planner_->FaultOf(i);
      const auto chunk = std::span<const float>(chunks).subspan(i * chunk_size, chunk_size);
      if (NonFiniteAction(chunk, static_cast<std::int64_t>(action_dim_))) continue;
      const double loss = LossOf(rows[i], chunk);
      if (loss >= least[i]) continue;
      least[i] = loss;
      faults_[i].clear();
      std::ranges::copy(chunk, actions.subspan(i * chunk_size, chunk_size).begin());
    }
  }
}

std::string BidPlanner::FaultOf(std::size_t row) const {
  return row < faults_.size() ? faults_[row] : "";
}

double BidPlanner::LossOf(const PlanRow& row, std::span<const float> chunk) const {
  const int n_old = static_cast<int>(row.committed.size() / action_dim_);
  const std::vector<float> weights =
      PrefixWeights(row.delay, n_old, n_action_steps_, PrefixSchedule::kExponential);
  double loss = 0.0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n_old); ++i) {
    double squares = 0.0;
    for (std::size_t d = 0; d < action_dim_; ++d) {
      const double error = static_cast<double>(chunk[i * action_dim_ + d]) -
                           static_cast<double>(row.committed[i * action_dim_ + d]);
      squares += error * error;
    }
    loss += weights[i] * std::sqrt(squares);
  }
  return loss;
}

}  // namespace dp_bench::control
