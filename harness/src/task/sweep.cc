#include "task/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compare/multi_run.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/json.h"
#include "report/html_report.h"
#include "run/run_contents.h"
#include "run/run_files.h"

namespace dp_bench::task {

SweepProgress ProgressOf(const std::filesystem::path& folder) {
  const run::RunContents contents = run::LookIntoRun(folder);
  if (contents.is_finished) return SweepProgress::kDone;
  return contents.is_empty() ? SweepProgress::kNone : SweepProgress::kBegun;
}

int RunSweep(std::span<const SweepRun> runs, DoneRuns done_runs, core::Communicator& ranks,
             const std::function<int(const SweepRun& run, SweepProgress progress)>& perform) {
  int exit_code = 0;
  for (const SweepRun& run : runs) {
    // rank 0 looks while no rank writes into the folder
    const SweepProgress seen = ranks.is_root() ? ProgressOf(run.folder) : SweepProgress::kNone;
    const auto progress = static_cast<SweepProgress>(ranks.AllReduceMax(static_cast<int>(seen)));
    if (progress == SweepProgress::kDone && done_runs == DoneRuns::kSkip) continue;
    if (!run.title.empty()) core::PrintResult("{}\n", run.title);
    const int result = perform(run, progress);
    if (result == core::kExitInterrupted) return result;
    if (exit_code == 0) exit_code = result;
  }
  return exit_code;
}

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxSummaryBytes = std::size_t{1} << 20;

void WriteSummary(const fs::path& folder, const nlohmann::json& summary) {
  core::WriteFileAtomically(folder / run::kMultiRunFile, summary.dump(2) + "\n");
}

void RequireDistinct(std::vector<std::uint64_t> seeds) {
  std::ranges::sort(seeds);
  const auto twice = std::ranges::adjacent_find(seeds);
  if (twice == seeds.end()) return;
  throw UsageError("the list of seeds names {} twice", *twice);
}

}  // namespace

MultiRunConfig MultiRunConfig::FromConfig(const Config& config) {
  MultiRunConfig c;
  const auto seeds = config.Require<std::vector<std::int64_t>>(
      "seeds", "values of training.seed; `run` trains and evaluates each, in seed_<n>");
  c.run_dir = config
                  .GetOptional<std::string>("run_dir",
                                            "folder of all of them; none for a new one in runs/. "
                                            "`--output` takes precedence")
                  .value_or("");
  const auto is_negative = [](std::int64_t seed) { return seed < 0; };
  if (seeds.empty() || std::ranges::any_of(seeds, is_negative)) {
    throw ConfigError("{}: expected one or more seeds of at least 0, found {}",
                      config.Where("seeds"), seeds);
  }
  c.seeds.assign(seeds.begin(), seeds.end());
  return c;
}

std::vector<SweepRun> SeedRuns(const fs::path& folder, const std::vector<std::uint64_t>& seeds) {
  RequireDistinct(seeds);
  std::vector<SweepRun> runs;
  for (const std::uint64_t seed : seeds) {
    runs.push_back({.title = fmt::format("seed {}", seed),
                    .folder = folder / compare::SeedFolder(seed),
                    .overrides = {fmt::format("training.seed={}", seed)}});
  }
  return runs;
}

void WriteSeeds(const fs::path& folder, const std::vector<std::uint64_t>& seeds) {
  WriteSummary(folder, {{"seeds", seeds}});
}

std::vector<std::uint64_t> SeedsOf(const fs::path& folder) {
  const fs::path file = folder / run::kMultiRunFile;
  if (!fs::exists(file)) return {};
  const nlohmann::json json = core::ReadJsonFile(file, kMaxSummaryBytes);
  const std::string what = file.string();
  return core::JsonView(json, what).Get<std::vector<std::uint64_t>>("seeds");
}

void ReportSeeds(const fs::path& folder, const std::vector<std::uint64_t>& seeds) {
  const compare::MultiRun multi_run = compare::ReadMultiRun(folder, seeds);
  WriteSummary(folder, compare::ToJson(multi_run));
  report::WriteMultiRunReport(multi_run);
  core::PrintResult("{}report: {}\n", report::MultiRunTable(multi_run),
                    multi_run.report_file().string());
}

}  // namespace dp_bench::task
