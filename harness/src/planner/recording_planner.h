// Keeps what another planner is asked and what it answers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "control/chunk_planner.h"
#include "dp_bench/spec.h"
#include "run/plan_record.h"

namespace dp_bench::planner {

/// Plans that throw are not kept.
class RecordingPlanner final : public control::ChunkPlanner {
 public:
  RecordingPlanner(std::shared_ptr<control::ChunkPlanner> planner,
                   std::shared_ptr<run::PlanRecordWriter> record, const PolicySpec& spec)
      : planner_(std::move(planner)),
        record_(std::move(record)),
        chunk_shape_{spec.horizons.n_action_steps, spec.shape_meta.action_dim()} {}

  int batch_size() const override { return planner_->batch_size(); }
  void Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
            std::span<float> actions) override;
  std::string FaultOf(std::size_t row) const override { return planner_->FaultOf(row); }
  control::ChunkPlanner& Unrecorded() override { return *planner_; }

 private:
  std::shared_ptr<control::ChunkPlanner> planner_;
  std::shared_ptr<run::PlanRecordWriter> record_;
  Shape chunk_shape_;
};

}  // namespace dp_bench::planner
