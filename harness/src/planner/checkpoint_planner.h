// A checkpoint that plans: its policy, and everything that the policy needs.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control/chunk_planner.h"
#include "control/chunking_config.h"
#include "dp_bench/config.h"
#include "dp_bench/policy.h"
#include "planner/policy_weights.h"
#include "plugin/catalogue.h"
#include "run/checkpoint.h"

namespace dp_bench::planner {

class CheckpointPlanner final : public control::ChunkPlanner {
 public:
  /// `micro_batch`: none is that of the checkpoint's evaluations (env_runner.micro_batch). Throws
  /// Error{kCheckpoint}, {kConfig} or {kPlugin}.
  CheckpointPlanner(const run::Checkpoint& checkpoint, Weights weights, torch::Device device,
                    std::optional<int> micro_batch,
                    const std::vector<std::filesystem::path>& plugin_dirs,
                    const control::ChunkingConfig& chunking = {});

  const Config& config() const { return config_; }  // of the training
  const PolicySpec& spec() const { return policy_->spec(); }
  std::string policy_name() const { return config_.Sub("policy").Get<std::string>("plugin"); }

  int batch_size() const override { return planner_->batch_size(); }
  void Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
            std::span<float> actions) override {
    planner_->Plan(obs, rows, actions);
  }
  std::string FaultOf(std::size_t row) const override { return planner_->FaultOf(row); }

 private:
  Config config_;
  plugin::PluginCatalogue catalogue_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<control::ChunkPlanner> planner_;
};

}  // namespace dp_bench::planner
