// For what they look like see merge.*.mustache.
#include "report/merge_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "compare/intervals.h"
#include "core/list_some.h"
#include "core/output_file.h"
#include "core/progress.h"
#include "core/shell.h"
#include "report/render.h"

namespace dp_bench::report {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShownParts = 50;

// The parts that wait longest first. Not the merged run itself, which an earlier merge left.
std::vector<const run::MergedPart*> UnfinishedParts(const run::MergedRun& merged) {
  std::vector<const run::MergedPart*> unfinished;
  for (const run::MergedPart& part : merged.parts) {
    if (part.shard && part.n_episodes < part.n_wanted) unfinished.push_back(&part);
  }
  std::ranges::sort(unfinished, std::ranges::greater(), &run::MergedPart::silent_s);
  return unfinished;
}

Json PartRows(const std::vector<const run::MergedPart*>& unfinished) {
  Json rows = Json::array();
  for (const run::MergedPart* part : unfinished) {
    if (rows.size() == kShownParts) break;
    rows.push_back({{"folder", part->folder.string()},
                    {"n_episodes", part->n_episodes},
                    {"n_wanted", part->n_wanted},
                    {"share", static_cast<double>(part->n_episodes) / part->n_wanted},
                    {"silent", core::FormatDuration(part->silent_s)}});
  }
  return rows;
}

// "2/4, 3/4": shards of which no folder is there; null if all have begun, or if the folders are
// not of one split.
Json NotBegun(const run::MergedRun& merged) {
  std::set<int> begun;
  int n = 0;
  for (const run::MergedPart& part : merged.parts) {
    if (part.is_output) continue;
    if (!part.shard || (n != 0 && part.shard->n != n)) return {};
    n = part.shard->n;
    begun.insert(part.shard->index);
  }
  std::vector<std::string> missing;
  for (int i = 0; i < n; ++i) {
    if (!begun.contains(i)) missing.push_back(fmt::format("{}/{}", i, n));
  }
  if (missing.empty()) return {};
  return core::ListSome(missing, kShownParts);
}

// Of the episodes in which the policy gave actions; null if it always did.
Json RateWithoutFaults(const run::SplitSummary& test) {
  const int n = test.n_episodes - test.n_policy_faults;
  if (test.n_policy_faults == 0 || n == 0) return {};
  return static_cast<double>(test.n_success) / n;
}

// The episodes before the first that is missing. Which later ones have ended depends on how they
// ended: successes end early.
std::span<const run::EpisodeRecord> WithoutGap(const std::vector<run::EpisodeRecord>& records) {
  std::size_t n = 0;
  while (n < records.size() && std::cmp_equal(records[n].episode, n)) ++n;
  return std::span(records).first(n);
}

Json ShownJson(const run::MergedRun& merged, const std::filesystem::path& output) {
  const run::SplitSummary all = run::Summarize(merged.result.records, "test");
  const run::SplitSummary first = run::Summarize(WithoutGap(merged.result.records), "test");
  const auto n_done = static_cast<int>(merged.result.records.size());
  const auto unfinished = UnfinishedParts(merged);
  return {{"title", fmt::format("{} of {} episodes", n_done, merged.n_wanted)},
          {"n_parts", std::ranges::count(merged.parts, false, &run::MergedPart::is_output)},
          {"not_begun", merged.is_complete() ? Json() : NotBegun(merged)},
          {"n_done", n_done},
          {"n_wanted", merged.n_wanted},
          {"n_missing", merged.n_wanted - n_done},
          {"n_twice", merged.n_twice > 0 ? Json(merged.n_twice) : Json()},
          {"is_complete", merged.is_complete()},
          {"success_rate", first.n_episodes > 0
                               ? Json(compare::AnytimeInterval(first.n_success, first.n_episodes))
                               : Json()},
          {"n_failed", all.n_failed > 0 ? Json(all.n_failed) : Json()},
          {"n_policy_faults", all.n_policy_faults > 0 ? Json(all.n_policy_faults) : Json()},
          {"rate_without_faults", RateWithoutFaults(first)},
          {"output", core::ShellWord(output.string())},
          {"n_unfinished", unfinished.size()},
          {"parts", PartRows(unfinished)}};
}

}  // namespace

std::string MergeText(const run::MergedRun& merged, const std::filesystem::path& output) {
  return Render("merge.txt", ShownJson(merged, output));
}

void WriteMergePage(const run::MergedRun& merged, const std::filesystem::path& output,
                    const std::filesystem::path& file) {
  core::WriteOutput(file, Render("merge.html", ShownJson(merged, output)));
}

}  // namespace dp_bench::report
