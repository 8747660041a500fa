// Work that a GPU repeats. A small network spends most of its time there between the kernels,
// because the host starts each one with a call. A graph starts all of them with one call
// (CUDA C++ Programming Guide, "CUDA Graphs"). Includes LibTorch.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace dp_bench::policy {

/// Runs a function of tensors again and again, on devices with graphs by replaying a graph of it.
/// The results are those of calling the function. Not for several threads at once.
class RepeatedWork {
 public:
  /// Without gradient. Each call must start the same operators, which read nothing that changes but
  /// the inputs and the values of weights. From a thread's second call on it must copy nothing
  /// between host and device, so it keeps what it once copied there.
  using Work = std::function<torch::Tensor(const std::vector<torch::Tensor>& inputs)>;

  RepeatedWork();
  RepeatedWork(const RepeatedWork&) = delete;
  RepeatedWork& operator=(const RepeatedWork&) = delete;
  ~RepeatedWork();

  /// What `work` makes of `inputs`, which all are on one device. The first call with inputs of
  /// these shapes runs `work`, the second runs it once more and then records its graph. Throws what
  /// `work` throws.
  torch::Tensor Run(const std::vector<torch::Tensor>& inputs, const Work& work);

  /// Call it when tensors that `work` reads, other than its inputs, were replaced by others.
  void Forget();

 private:
  class Recording;

  std::vector<std::vector<std::int64_t>> shapes_;  // of the last inputs
  std::unique_ptr<Recording> recording_;           // null before the second call with these shapes
};

}  // namespace dp_bench::policy
