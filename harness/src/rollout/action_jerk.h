// How smooth the executed actions are, within chunks and where one chunk follows another.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dp_bench::rollout {

/// Jerk is the third difference of the actions, a[t] - 3 a[t-1] + 3 a[t-2] - a[t-3], as a Euclidean
/// norm in raw units per step^3. It is at a seam if these four actions are of two chunks.
class ActionJerk {
 public:
  void Start() { n_steps_ = 0, n_since_seam_ = kOrder, seams_ = {}, elsewhere_ = {}; }

  /// `chunk` tells the chunks apart.
  void Add(std::span<const float> action, int chunk);

  double mean_at_seams() const { return seams_.mean(); }  // 0 without any
  double mean_elsewhere() const { return elsewhere_.mean(); }

 private:
  static constexpr std::size_t kOrder = 3;

  struct Sum {
    double total = 0.0;
    int n = 0;
    double mean() const { return n > 0 ? total / n : 0.0; }
  };

  std::vector<float> last_;  // [kOrder, Da], step t at t % kOrder
  int last_chunk_ = 0;
  std::size_t n_steps_ = 0;
  std::size_t n_since_seam_ = kOrder;
  Sum seams_;
  Sum elsewhere_;
};

}  // namespace dp_bench::rollout
