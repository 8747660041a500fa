// See product_cache.h.
#include "policy/kernels/product_cache.h"

namespace dp_bench::policy {
namespace {

// Weights that a policy makes anew for each plan would fill the memory.
constexpr std::size_t kMaxEntries = 1024;

thread_local ProductCache* current_cache = nullptr;

std::int64_t VersionOf(const torch::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor._version();
}

}  // namespace

void ProductCache::SetType(ProductType type) {
  type_ = type;
  Clear();
}

void ProductCache::Clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

const PackedWeight& ProductCache::Find(const torch::Tensor& weight, std::int64_t n_sources) {
  const auto* const data = weight.const_data_ptr<float>();
  const MatrixView view = {.data = data,
                           .n_rows = weight.size(0),
                           .n_columns = weight.size(1),
                           .row_stride = weight.stride(0),
                           .column_stride = weight.stride(1)};
  const Key key = {data,     view.n_rows, view.n_columns, view.row_stride, view.column_stride,
                   n_sources};
  const std::int64_t version = VersionOf(weight);
  const std::lock_guard lock(mutex_);
  auto found = entries_.find(key);
  if (found != entries_.end() && found->second.version == version) return found->second.packed;
  if (entries_.size() >= kMaxEntries) entries_.clear();
  return entries_
      .insert_or_assign(key, Entry{.weight = weight,
                                   .version = version,
                                   .packed = n_sources == kInPanels
                                                 ? PackedWeight::InPanels(view, type_)
                                                 : PackedWeight::InRows(view, n_sources, type_)})
      .first->second.packed;
}

ProductScope::ProductScope(ProductCache* cache) : before_(current_cache) { current_cache = cache; }

ProductScope::~ProductScope() { current_cache = before_; }

ProductCache* ProductScope::Current() { return current_cache; }

}  // namespace dp_bench::policy
