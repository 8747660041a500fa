// See op_summary.h.
#include "inspect/op_summary.h"

#include <algorithm>
#include <map>
#include <utility>

namespace dp_bench::inspect {

std::vector<OpTotal> SummarizeOps(std::span<const OpEvent> events, std::string_view scope) {
  std::vector<bool> is_within(events.size());
  std::vector<double> self_us(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {  // parents come before their children
    const OpEvent& event = events[i];
    const auto parent = static_cast<std::size_t>(event.parent);
    is_within[i] = (event.kind == OpKind::kScope && event.name == scope) ||
                   (event.parent >= 0 && is_within[parent]);
    self_us[i] += event.duration_us();
    if (event.parent >= 0) self_us[parent] -= event.duration_us();
  }

  std::map<std::pair<OpKind, std::string_view>, OpTotal> by_name;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!is_within[i]) continue;
    const OpEvent& event = events[i];
    OpTotal& total = by_name[{event.kind, event.name}];
    total.name = event.name;
    total.kind = event.kind;
    ++total.n_calls;
    total.self_us += self_us[i];
    total.total_us += event.duration_us();
    total.flops += event.flops;
    if (event.flops > 0.0) total.product_us += event.duration_us();
    total.bytes += event.bytes;
  }
  std::vector<OpTotal> totals;
  for (auto& [name, total] : by_name) totals.push_back(std::move(total));
  std::ranges::stable_sort(totals, std::ranges::greater{}, &OpTotal::self_us);
  return totals;
}

WorkTotal SumOf(std::span<const OpTotal> totals) {
  WorkTotal sum;
  for (const OpTotal& total : totals) {
    sum.self_us += total.self_us;
    sum.flops += total.flops;
    sum.bytes += total.bytes;
    sum.product_us += total.product_us;
    if (total.bytes > 0.0) sum.bytes_us += total.self_us;
  }
  return sum;
}

}  // namespace dp_bench::inspect
