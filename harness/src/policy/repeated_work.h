// Work that a GPU repeats. A small network spends most of its time there between the kernels,
// because the host starts each one with a call. A graph starts all of them with one call
// (CUDA C++ Programming Guide, "CUDA Graphs"). Includes LibTorch.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

namespace dp_bench::policy {

/// Why a function cannot be recorded.
class RecordingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs a function of tensors again and again, on devices with graphs by replaying a graph of it.
/// The results are those of calling the function. Not for several threads at once.
class RepeatedWork {
 public:
  /// Each call must start the same operators, which read nothing that changes but the inputs and
  /// the values of weights, and change no tensor of others: to record is to run it once more. From
  /// a thread's second call on it must copy nothing between host and device, so it keeps what it
  /// once copied there.
  using Work = std::function<torch::Tensor(const std::vector<torch::Tensor>& inputs)>;

  RepeatedWork();
  RepeatedWork(const RepeatedWork&) = delete;
  RepeatedWork& operator=(const RepeatedWork&) = delete;
  ~RepeatedWork();

  /// What `work` makes of `inputs`, which all are on one device, without gradient. The second call
  /// in a row with inputs of these shapes runs `work` and records its graph, unless the graph of
  /// earlier ones fits. Throws what `work` throws.
  torch::Tensor Run(const std::vector<torch::Tensor>& inputs, const Work& work);

  /// The same for a scalar with gradient: of `parameters` and of those inputs that require one. A
  /// graph holds the gradients too. Differentiate a result before the next call. Throws
  /// RecordingError if `work` does what a graph cannot hold.
  torch::Tensor RunWithGradient(const std::vector<torch::Tensor>& inputs,
                                const std::vector<torch::Tensor>& parameters, const Work& work);

  /// Call it when tensors that `work` reads, other than inputs and parameters, were replaced by
  /// others.
  void Forget();

 private:
  class Recording;
  class ReplayedScalar;
  using Signature = std::vector<std::vector<std::int64_t>>;  // shapes, types, places of tensors

  std::shared_ptr<Recording> RecordingOf(const std::vector<torch::Tensor>& inputs,
                                         const std::vector<torch::Tensor>& parameters,
                                         const Work& work);

  Signature last_;                        // of the last call without a recording
  Signature recorded_;                    // of the recording
  std::shared_ptr<Recording> recording_;  // null before the second call
};

}  // namespace dp_bench::policy
