// The weights of a policy in the layout of its products. They are laid out once, and not in every
// product.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <tuple>

#include "policy/kernels/product_kernels.h"

namespace dp_bench::policy {

/// A float32 matrix on the CPU.
MatrixView ViewOf(const torch::Tensor& matrix);

/// A weight is known by its memory and its version. The cache keeps the memory alive. Threads may
/// look for weights at the same time.
class ProductCache {
 public:
  explicit ProductCache(ProductType type) : type_(type) {}

  ProductType type() const { return type_; }

  /// Products with other types from now on.
  void SetType(ProductType type);

  /// weight [N, K]. The result stays valid if the cache forgets it, as long as `weight` exists.
  PackedWeight InPanels(const torch::Tensor& weight) { return Find(weight, kInPanels); }
  PackedWeight InRows(const torch::Tensor& weight, std::int64_t n_sources) {
    return Find(weight, n_sources);
  }

  /// For weights that changed without a new version.
  void Clear();

 private:
  static constexpr std::int64_t kInPanels = 0;

  // memory, sizes, strides, number of sources
  using Key = std::tuple<const float*, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t>;
  struct Entry {
    torch::Tensor weight;
    std::int64_t version;
    PackedWeight packed;
  };

  PackedWeight Find(const torch::Tensor& weight, std::int64_t n_sources);

  ProductType type_;
  std::mutex mutex_;  // for entries_
  std::map<Key, Entry> entries_;
};

/// The products of this thread use `cache` while this object exists.
class ProductScope {
 public:
  explicit ProductScope(ProductCache* cache);
  ProductScope(const ProductScope&) = delete;
  ProductScope& operator=(const ProductScope&) = delete;
  ~ProductScope();

  /// Null without a scope.
  static ProductCache* Current();

 private:
  ProductCache* before_;
};

/// Whether products with x are differentiated in bfloat16: under autocast, on the CPU.
bool TrainsInBf16(const torch::Tensor& x);

/// A weight in panels, for products that are differentiated in bfloat16.
PackedWeight PackForTraining(const torch::Tensor& weight);

/// The cache of this thread if inference with x is done in blocks of rows, each by one thread: if x
/// [rows, K] has so many that threads share its products better by rows than by columns. `units`
/// cannot be divided. Otherwise null.
ProductCache* CacheForBlocks(const torch::Tensor& x, std::int64_t units);

/// out [O, columns] = weight [O, K] times the K rows of all sources, which are dense; CPU float32,
/// without gradients. `scale_period` as in WeightByColumns.
void ColumnProduct(const torch::Tensor& weight, std::span<const ShiftedRows> sources,
                   std::int64_t scale_period, torch::Tensor& out);

}  // namespace dp_bench::policy
