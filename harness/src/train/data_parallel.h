// One training on several ranks. Each rank computes the gradients of its rows of every batch, and
// all take the same step with the sum (Li et al. 2020, "PyTorch Distributed").
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "data/sequence_sampler.h"
#include "train/optimizer.h"
#include "train/train_state.h"

namespace dp_bench::train {

/// With one rank, no function changes anything, not even a bit. With several, all ranks call the
/// same functions in the same order and get the same results.
class DataParallel {
 public:
  /// `ranks` must outlive this object.
  explicit DataParallel(core::Communicator& ranks) : ranks_(ranks) {}

  /// This rank's rows of a batch.
  data::Shard shard() const { return {.index = ranks_.rank(), .count = ranks_.size()}; }

  bool is_root() const { return ranks_.is_root(); }

  /// Combines this rank's rows into all rows of the batch: n_rows is summed, loss and parts become
  /// means over the rows. A rank without rows passes n_rows 0; its other values are ignored.
  TrainStepResult MeanOverRows(TrainStepResult local) const;

  /// The same for a single mean.
  double MeanOverRows(double mean, std::int64_t n_rows) const;

  /// Sums the gradients of all parameters, in one message. A rank without a gradient for a
  /// parameter counts as zero. If no rank has one, the parameter keeps none.
  void SumGradients(std::span<const ParameterGroup> groups);

  /// Sums the gradients at rank 0 and removes them from the others. The next SumGradients gives the
  /// same result as without this call.
  void MoveGradientsToRoot(std::span<const ParameterGroup> groups);

  /// The largest value of any rank.
  int Max(int value) const { return ranks_.AllReduceMax(value); }

  /// All ranks' numbers, in the order of ranks.
  std::vector<std::int64_t> Concatenate(std::span<const std::int64_t> numbers) const;

  /// The value of rank 0.
  std::string FromRoot(const std::string& text) const { return ranks_.FromRoot(text); }

  /// Throws Error{kConfig} if `module` has batch norms. They compute their statistics over a rank's
  /// rows, so the result would depend on the number of ranks.
  void RequireNoBatchNorm(const torch::nn::Module& module) const;

  /// Throws Error{kCheckpoint} naming the entries in which a rank differs from rank 0. `state`
  /// maps a name to its bytes or their hash.
  void RequireSame(const std::map<std::string, std::string>& state) const;

 private:
  core::Communicator& ranks_;
  torch::Tensor
      message_;  // float32: all gradients, then for each parameter how many ranks have one
};

/// SHA-256 over names and values of all parameters.
std::string HashOfParameters(const torch::nn::Module& module);

}  // namespace dp_bench::train
