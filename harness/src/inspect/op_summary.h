// Recorded calls, added up by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/op_recorder.h"

namespace dp_bench::inspect {

/// All calls of one operator, node or scope.
struct OpTotal {
  std::string name;
  OpKind kind = OpKind::kOperator;
  std::int64_t n_calls = 0;
  double self_us = 0.0;   // without the calls within it
  double total_us = 0.0;  // with them
  double flops = 0.0;
  double product_us = 0.0;  // of the calls that `flops` counts, with those within them
  double bytes = 0.0;
};

/// The calls within `scope` (at any depth) and the scope itself, the largest self time first. Self
/// times add up to the scope's total, as what is no operator counts to the scope or node around it.
std::vector<OpTotal> SummarizeOps(std::span<const OpEvent> events, std::string_view scope);

/// Sums over such a list.
struct WorkTotal {
  double flops = 0.0;
  double product_us = 0.0;
  double bytes = 0.0;
  double bytes_us = 0.0;  // self time of what `bytes` counts
  double self_us = 0.0;   // of everything
};

WorkTotal SumOf(std::span<const OpTotal> totals);

}  // namespace dp_bench::inspect
