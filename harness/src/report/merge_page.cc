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

// The share of the episodes that a part has done.
double ShareOf(const run::MergedPart& part) {
  return part.n_wanted == 0 ? 1.0 : static_cast<double>(part.n_episodes) / part.n_wanted;
}

// Not the merged run itself, which an earlier merge left.
Json PartRows(const run::MergedRun& merged) {
  std::vector<const run::MergedPart*> unfinished;
  for (const run::MergedPart& part : merged.parts) {
    if (part.shard && part.n_episodes < part.n_wanted) unfinished.push_back(&part);
  }
  std::ranges::sort(unfinished, std::ranges::greater(), &run::MergedPart::silent_s);
  Json rows = Json::array();
  for (const run::MergedPart* part : unfinished) {
    if (rows.size() == kShownParts) break;
    rows.push_back({{"folder", part->folder.string()},
                    {"n_episodes", part->n_episodes},
                    {"n_wanted", part->n_wanted},
                    {"share", ShareOf(*part)},
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

Json SuccessRateJson(const std::vector<run::EpisodeRecord>& records) {
  const run::SplitSummary test = run::Summarize(WithoutGap(records), "test");
  return test.n_episodes > 0 ? Json(compare::AnytimeInterval(test.n_success, test.n_episodes))
                             : Json();
}

Json ShownJson(const run::MergedRun& merged, const std::filesystem::path& output) {
  const run::SplitSummary test = run::Summarize(merged.result.records, "test");
  const auto n_done = static_cast<int>(merged.result.records.size());
  const auto n_parts = std::ranges::count(merged.parts, false, &run::MergedPart::is_output);
  Json shown = {{"n_parts", n_parts},
                {"not_begun", merged.is_complete() ? Json() : NotBegun(merged)},
                {"n_done", n_done},
                {"n_wanted", merged.n_wanted},
                {"n_missing", merged.n_wanted - n_done},
                {"n_twice", merged.n_twice > 0 ? Json(merged.n_twice) : Json()},
                {"is_complete", merged.is_complete()},
                {"success_rate", SuccessRateJson(merged.result.records)},
                {"n_failed", test.n_failed > 0 ? Json(test.n_failed) : Json()},
                {"n_policy_faults", test.n_policy_faults > 0 ? Json(test.n_policy_faults) : Json()},
                {"rate_without_faults",
                 RateWithoutFaults(run::Summarize(WithoutGap(merged.result.records), "test"))},
                {"output", core::ShellWord(output.string())},
                {"parts", PartRows(merged)}};
  const auto n_unfinished = std::ranges::count_if(merged.parts, [](const run::MergedPart& part) {
    return part.shard && part.n_episodes < part.n_wanted;
  });
  shown["n_unfinished"] = n_unfinished;
  return shown;
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
