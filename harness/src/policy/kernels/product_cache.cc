// See product_cache.h.
#include "policy/kernels/product_cache.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "policy/kernels/int8_product_kernels.h"
#include "policy/kernels/loop_tensors.h"

namespace dp_bench::policy {
namespace {

// Weights that a policy makes anew for each plan would fill the memory.
constexpr std::size_t kMaxEntries = 1024;

thread_local ProductCache* current_cache = nullptr;

std::int64_t VersionOf(const torch::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor._version();
}

// n_sources: 0 for a weight in panels. What does not fit int8 takes little time in float32 too.
PackedWeight Pack(const MatrixView& w, std::int64_t n_sources, ProductType type) {
  if (type == ProductType::kInt8 && !FitsInt8(w, std::max<std::int64_t>(n_sources, 1))) {
    type = ProductType::kFloat32;
  }
  return n_sources == 0 ? PackedWeight::InPanels(w, type)
                        : PackedWeight::InRows(w, n_sources, type);
}

}  // namespace

MatrixView ViewOf(const torch::Tensor& matrix) {
  return {.data = matrix.const_data_ptr<float>(),
          .n_rows = matrix.size(0),
          .n_columns = matrix.size(1),
          .row_stride = matrix.stride(0),
          .column_stride = matrix.stride(1)};
}

PackedWeight PackForTraining(const torch::Tensor& weight) {
  return PackedWeight::InPanels(ViewOf(weight), ProductType::kBf16AnyOrder, at::get_num_threads());
}

ProductCache* CacheForBlocks(const torch::Tensor& x, std::int64_t units) {
  constexpr std::int64_t kMinRows = 64;
  const int n_threads = at::get_num_threads();
  const bool has_rows = x.size(0) >= kMinRows * n_threads && units >= 2 * n_threads;
  return has_rows && !torch::GradMode::is_enabled() && UsesOwnLoops(x) ? current_cache : nullptr;
}

void ProductCache::SetType(ProductType type) {
  type_ = type;
  Clear();
}

void ProductCache::Clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

PackedWeight ProductCache::Find(const torch::Tensor& weight, std::int64_t n_sources) {
  const MatrixView view = ViewOf(weight);
  const Key key = {view.data,       view.n_rows,        view.n_columns,
                   view.row_stride, view.column_stride, n_sources};
  const std::int64_t version = VersionOf(weight);
  const std::lock_guard lock(mutex_);
  auto found = entries_.find(key);
  if (found != entries_.end() && found->second.version == version) return found->second.packed;
  if (entries_.size() >= kMaxEntries) entries_.clear();
  return entries_
      .insert_or_assign(
          key, Entry{.weight = weight, .version = version, .packed = Pack(view, n_sources, type_)})
      .first->second.packed;
}

ProductScope::ProductScope(ProductCache* cache) : before_(current_cache) { current_cache = cache; }

ProductScope::~ProductScope() { current_cache = before_; }

ProductCache* ProductScope::Current() { return current_cache; }

}  // namespace dp_bench::policy
