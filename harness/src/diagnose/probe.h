// The batches that a diagnosis uses, and what a policy does with them. Includes LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/loader.h"
#include "diagnose/log_checks.h"
#include "dp_bench/policy.h"
#include "train/process_stages.h"
#include "train/train_config.h"

namespace dp_bench::diagnose {

/// Training batches that stay in memory, with noise that is the same each time.
class Probe {
 public:
  /// `n_batches` of `batch_size` rows from the episodes of the mask; fewer if the data run out.
  Probe(const Dataset& dataset, const Policy& policy, const std::vector<bool>& episodes,
        std::int64_t batch_size, int n_batches);

  std::size_t size() const { return batches_.size(); }
  const Batch& batch(std::size_t i) const { return batches_[i]; }
  NoiseSource Noise(std::size_t i) const;

 private:
  std::vector<data::HostBatch> hosts_;  // memory behind batches_
  std::vector<Batch> batches_;
};

/// What instrumented losses recorded, with the rows of all batches concatenated.
struct ProcessSample : train::ProcessStages {
  std::vector<double> losses;  // one per batch

  double mean_loss() const;
};

/// Runs ComputeLoss on all batches, without gradients and in evaluation mode.
ProcessSample RecordLosses(Policy& policy, const Probe& probe);

/// The same for the first batch, in the precision of a training and with its gradients.
ProcessSample RecordFirstLoss(Policy& policy, const Probe& probe, train::MixedPrecision precision);

/// NaN for an empty tensor.
ValueRange RangeOf(const torch::Tensor& x);

/// "mean -0.01, std 0.52, within [-1.00, 1.00]"
std::string Summary(const torch::Tensor& x);

/// The part of a network that a parameter belongs to: the first two parts of its name,
/// "diffusion.obs_encoder" for "diffusion.obs_encoder.linear.weight".
std::string PartOf(const std::string& parameter);

}  // namespace dp_bench::diagnose
