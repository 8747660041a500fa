// The k best checkpoints by a monitored metric, as in diffusion_policy's TopKCheckpointManager
// (common/checkpoint_util.py). It only decides names; CheckpointStore writes and removes.
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
    std::optional<std::string> remove;  // remove it once `save` and the table are on disk
  };

  bool IsMonitored(const std::map<std::string, double>& metrics) const;

  /// std::nullopt if the checkpoint is not among the k best. Of equal ones, the earliest epoch is
  /// removed first. If the monitored metric is missing, throws Error{kConfig} naming those that
  /// exist; if it is not finite, Error{kNumeric}.
  std::optional<Decision> Offer(int epoch, const std::map<std::string, double>& metrics);

  /// Name -> metric of the kept checkpoints; saved in the checkpoint's state.
  const std::map<std::string, double>& table() const { return table_; }
  void set_table(std::map<std::string, double> table) { table_ = std::move(table); }

 private:
  TopKConfig config_;
  std::map<std::string, double> table_;
};

}  // namespace dp_bench::run
