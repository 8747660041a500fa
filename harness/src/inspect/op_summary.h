// Recorded calls, summed by name.
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
  double self_us = 0.0;   // without nested calls
  double total_us = 0.0;  // with nested calls
  double flops = 0.0;
  double product_us = 0.0;  // total of the calls counted in `flops`, with nested calls
  double bytes = 0.0;
};

/// The calls within `scope` (at any depth) and the scope itself, the largest self time first. The
/// self times add up to the scope's total: time outside any operator belongs to the enclosing scope
/// or node.
std::vector<OpTotal> SummarizeOps(std::span<const OpEvent> events, std::string_view scope);

/// Sums over such a list.
struct WorkTotal {
  double flops = 0.0;
  double product_us = 0.0;
  double bytes = 0.0;
  double bytes_us = 0.0;  // self time of the operators counted in `bytes`
  double self_us = 0.0;   // of everything
};

WorkTotal SumOf(std::span<const OpTotal> totals);

}  // namespace dp_bench::inspect
