#include "experiment/multi_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compare/multi_run.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/exit_code.h"
#include "core/json.h"
#include "dp_bench/error.h"
#include "dp_bench/policy.h"
#include "report/html_report.h"
#include "run/run_contents.h"
#include "run/run_files.h"

namespace dp_bench::experiment {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxSummaryBytes = std::size_t{1} << 20;

void WriteSummary(const fs::path& folder, const nlohmann::json& summary) {
  core::WriteFileAtomically(folder / run::kMultiRunFile, std::string_view(summary.dump(2) + "\n"));
}

void RequireDistinct(std::vector<std::uint64_t> seeds) {
  std::ranges::sort(seeds);
  const auto twice = std::ranges::adjacent_find(seeds);
  if (twice == seeds.end()) return;
  throw Error(ErrorCode::kUsage, fmt::format("the list of seeds names {} twice", *twice));
}

enum class SeedProgress { kNone, kBegun, kDone };

SeedProgress ProgressOf(const fs::path& seed_folder) {
  const run::RunContents contents = run::LookIntoRun(seed_folder);
  if (contents.is_finished) return SeedProgress::kDone;
  return contents.is_empty() ? SeedProgress::kNone : SeedProgress::kBegun;
}

// Rank 0 looks while no rank writes into the folder.
SeedProgress ProgressOf(const fs::path& seed_folder, core::Communicator& ranks) {
  const auto progress = ranks.is_root() ? ProgressOf(seed_folder) : SeedProgress::kNone;
  return static_cast<SeedProgress>(ranks.AllReduceMax(static_cast<int>(progress)));
}

int Worse(int a, int b) { return a != 0 ? a : b; }

}  // namespace

int RunSeeds(const ExperimentOptions& options, const fs::path& folder,
             const std::vector<std::uint64_t>& seeds, core::Communicator& ranks,
             const RunOne& run_one) {
  RequireDistinct(seeds);
  int exit_code = 0;
  for (const std::uint64_t seed : seeds) {
    const fs::path seed_folder = folder / compare::SeedFolder(seed);
    const SeedProgress progress = ProgressOf(seed_folder, ranks);
    if (progress == SeedProgress::kDone) continue;
    core::PrintResult("seed {}\n", seed);
    ExperimentOptions of_seed = options;
    of_seed.overrides.push_back(fmt::format("training.seed={}", seed));
    const int result = run_one(of_seed, {.folder = seed_folder,
                                         .is_resumed = progress == SeedProgress::kBegun,
                                         .write_summary = [&] {
                                           WriteSummary(folder, {{"seeds", seeds}});
                                         }});
    if (result == core::kExitInterrupted) return result;
    exit_code = Worse(exit_code, result);
  }

  if (!ranks.is_root()) return exit_code;
  const compare::MultiRun multi_run = compare::ReadMultiRun(folder, seeds);
  WriteSummary(folder, compare::ToJson(multi_run));
  report::WriteMultiRunReport(multi_run);
  core::PrintResult("{}report: {}\n", report::MultiRunTable(multi_run),
                    multi_run.report_file().string());
  return exit_code;
}

std::vector<fs::path> BegunSeeds(const fs::path& folder, const std::vector<std::uint64_t>& seeds) {
  std::vector<fs::path> begun;
  for (const std::uint64_t seed : seeds) {
    const fs::path seed_folder = folder / compare::SeedFolder(seed);
    if (ProgressOf(seed_folder) == SeedProgress::kBegun) begun.push_back(seed_folder);
  }
  return begun;
}

std::vector<std::uint64_t> SeedsOf(const fs::path& folder) {
  const fs::path file = folder / run::kMultiRunFile;
  if (!fs::exists(file)) return {};
  const nlohmann::json json = core::ReadJsonFile(file, kMaxSummaryBytes);
  const std::string what = file.string();
  return core::JsonView(json, what).Get<std::vector<std::uint64_t>>("seeds");
}

}  // namespace dp_bench::experiment
