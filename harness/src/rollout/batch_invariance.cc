#include "rollout/batch_invariance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench {
namespace {

// Row i of the new batch is row from[i] of the old one, planned with `rows[i]`.
std::vector<float> PlanRearranged(ChunkPlanner& planner, const ObsBatch& obs,
                                  std::span<const std::size_t> from, std::span<const PlanRow> rows,
                                  std::size_t n_actions) {
  ObsBatch rearranged = obs;
  for (auto& [key, array] : rearranged) {
    const std::span<const std::byte> source = obs.find(key)->second.bytes();
    const std::size_t row_bytes = source.size() / from.size();
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::ranges::copy(source.subspan(from[i] * row_bytes, row_bytes),
                        array.bytes().subspan(i * row_bytes, row_bytes).begin());
    }
  }
  std::vector<float> actions(n_actions);
  planner.Plan(rearranged, rows, actions);
  return actions;
}

void RequireSameBits(std::span<const float> wanted, std::span<const float> found, std::size_t row,
                     std::string_view change) {
  if (std::memcmp(wanted.data(), found.data(), wanted.size_bytes()) == 0) return;
  throw Error(
      ErrorCode::kNumeric,
      fmt::format("the policy is not batch-invariant: the actions of row {} changed when {}, "
                  "so the outcome of an episode would depend on the episodes beside it. Set "
                  "env_runner.micro_batch=1, or accept it with "
                  "env_runner.check_batch_invariance=false",
                  row, change));
}

}  // namespace

void CheckBatchInvariance(ChunkPlanner& planner, const ObsBatch& obs, std::span<const PlanRow> rows,
                          std::span<const float> actions) {
  const auto batch_size = static_cast<std::size_t>(planner.batch_size());
  const std::size_t chunk_size = actions.size() / batch_size;

  // reverse order: every row gets another place (padding rows are copies of the first)
  std::vector<std::size_t> from(batch_size);
  std::vector<PlanRow> new_rows(batch_size);
  for (std::size_t i = 0; i < batch_size; ++i) {
    from[i] = batch_size - 1 - i;
    new_rows[i] = rows[from[i] < rows.size() ? from[i] : 0];
  }
  const std::vector<float> reversed = PlanRearranged(planner, obs, from, new_rows, actions.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    RequireSameBits(actions.subspan(row * chunk_size, chunk_size),
                    std::span(reversed).subspan(from[row] * chunk_size, chunk_size), row,
                    "the batch was planned in another order");
  }

  // every second row becomes another episode: those between keep place and content
  for (std::size_t i = 0; i < batch_size; ++i) {
    const bool is_kept = i % 2 == 0;
    from[i] = is_kept ? i : 0;
    new_rows[i] = rows[is_kept && i < rows.size() ? i : 0];
    if (!is_kept) new_rows[i].seed = ~(new_rows[i].seed + i);
  }
  const std::vector<float> mixed = PlanRearranged(planner, obs, from, new_rows, actions.size());
  for (std::size_t row = 0; row < rows.size(); row += 2) {
    RequireSameBits(actions.subspan(row * chunk_size, chunk_size),
                    std::span(mixed).subspan(row * chunk_size, chunk_size), row,
                    "its companions changed");
  }
}

}  // namespace dp_bench
