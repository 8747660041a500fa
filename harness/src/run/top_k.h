// Which checkpoints are the k best by a monitored metric: diffusion_policy's TopKCheckpointManager
// (common/checkpoint_util.py). It decides names only; CheckpointStore writes and removes.
// Torch-free.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "dp_bench/config.h"

namespace dp_bench::run {

struct TopKConfig {
  std::string monitor_key = "test_mean_score";
  bool is_max = true;
  int k = 5;

  static TopKConfig FromConfig(const Config& config);
};

class TopK {
 public:
  explicit TopK(TopKConfig config) : config_(std::move(config)) {}

  struct Decision {
    std::string save;                   // "epoch=0100-test_mean_score=0.871"
    std::optional<std::string> remove;  // to be removed once `save` and the table are safe on disk
  };

  /// Whether the monitored metric is among them.
  bool IsMonitored(const std::map<std::string, double>& metrics) const;

  /// std::nullopt when the metric is not among the k best; among equal ones the earliest epoch goes
  /// first. Throws Error{kConfig} naming the metrics that exist when the monitored one is missing,
  /// and Error{kNumeric} when it is not finite.
  std::optional<Decision> Offer(int epoch, const std::map<std::string, double>& metrics);

  /// Name -> metric of those kept; travels with the checkpoint's state.
  const std::map<std::string, double>& table() const { return table_; }
  void set_table(std::map<std::string, double> table) { table_ = std::move(table); }

 private:
  TopKConfig config_;
  std::map<std::string, double> table_;
};

}  // namespace dp_bench::run
