#include "isolate/memory_layout.h"

#include <algorithm>

#include "dp_bench/spec.h"

namespace dp_bench {

std::size_t Aligned(std::size_t size) {
  return (size + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

MemoryLayout LayOut(const EnvSpec& spec, std::optional<std::size_t> state_size) {
  const std::size_t action = spec.shape_meta.action.ByteSize();
  const std::size_t state = state_size.value_or(0) * sizeof(double);
  const std::size_t metrics = spec.metrics.size() * sizeof(double);
  MemoryLayout layout;
  layout.output = Aligned(std::max(action, state));
  std::size_t end = layout.output + Aligned(std::max({action, state, metrics}));
  for (const KeySpec& key : spec.shape_meta.obs) {
    layout.obs.push_back(end);
    end += Aligned(key.ByteSize());
  }
  layout.bulk = end;
  return layout;
}

}  // namespace dp_bench
