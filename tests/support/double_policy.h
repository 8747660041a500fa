// A policy in float64, where sampling amplifies no rounding.
#pragma once

#include <utility>

#include "dp_bench/normalizer.h"
#include "dp_bench/policy.h"

namespace dp_bench {

/// From now on, `policy` computes in float64 and normalizes with `fields`.
inline void ToDouble(Policy& policy, Normalizer::Fields fields) {
  for (auto& [key, field] : fields) {
    field.scale = field.scale.to(torch::kFloat64);
    field.offset = field.offset.to(torch::kFloat64);
  }
  policy.module().to(torch::kFloat64);
  policy.WeightsChanged();
  policy.SetNormalizer(Normalizer(std::move(fields)));
}

}  // namespace dp_bench
