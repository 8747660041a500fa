// dp_bench merge: makes one evaluation of its shards.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "app/light/verbs.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/folder_lock.h"
#include "core/stop_signal.h"
#include "report/html_report.h"
#include "report/merge_page.h"
#include "run/merge_runs.h"
#include "run/result_files.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMergeDetails =
    R"(Each DIR is the --output of `eval --shard`, a shard in it, or an evaluation of the same. The result is
that of one process. It may be called while the shards still run: then it says how far they are, and
the same command adds what is new. Exit code 75: episodes are missing.

Examples:
  dp_bench merge runs/mine
  dp_bench merge runs/mine --watch 30 --html progress.html
  dp_bench merge cluster_a/mine cluster_b/mine --output runs/mine)";

struct MergeVerbOptions {
  std::vector<fs::path> folders;
  fs::path output;
  fs::path html;
  double watch_s = 0.0;
};

// Merges what is there. None if episodes are missing, else the exit code.
std::optional<int> MergeOnce(const MergeVerbOptions& options) {
  fs::create_directories(options.output);
  const core::FolderLock lock(options.output);
  std::vector<fs::path> paths = options.folders;
  if (run::HasManifest(options.output)) paths.push_back(options.output);  // of an earlier merge
  run::MergedRun merged = run::MergeRuns(run::FindParts(paths), options.output);
  if (merged.parts.empty()) throw UsageError("no shard has begun yet");
  run::WriteMerged(merged, options.output);
  core::PrintResult("{}", report::MergeText(merged, options.output));
  if (!options.html.empty()) report::WriteMergePage(merged, options.output, options.html);
  if (!merged.is_complete()) return std::nullopt;
  const run::RunFolder run = run::AsRunFolder(std::move(merged), options.output);
  report::WriteHtmlReport(run);
  core::PrintResult("report: {}\n", run.report_file().string());
  const bool is_broken = std::ranges::any_of(run.episodes, &run::EpisodeRecord::has_failed);
  return is_broken ? ExitCodeFor(ErrorCode::kEnv) : 0;
}

int Merge(MergeVerbOptions options) {
  run::RequireResultFiles({{"--html", options.html, run::kMergePage}});
  if (options.output.empty() && options.folders.size() > 1) {
    throw UsageError("several folders need --output: the folder of the merged evaluation");
  }
  if (options.output.empty()) options.output = options.folders.front();
  const std::atomic<bool>& stop = core::CatchStopSignals();
  while (true) {
    if (const std::optional<int> exit_code = MergeOnce(options)) return *exit_code;
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(options.watch_s);
    if (options.watch_s <= 0.0) return core::kExitInterrupted;
    while (!stop && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    if (stop) return core::kExitInterrupted;
  }
}

}  // namespace

Verb AddMergeShards(CLI::App* app) {
  auto options = std::make_shared<MergeVerbOptions>();
  app->footer(kMergeDetails);
  app->add_option("folders", options->folders, "Shards, or folders that hold them")
      ->required()
      ->check(CLI::ExistingDirectory);
  app->add_option("--output", options->output,
                  "Folder of the merged evaluation (default: the one DIR)");
  app->add_option("--html", options->html, "Also write a page with the progress of the shards");
  AddNumber(app, "--watch", &options->watch_s, 0.0, 86400.0,
            "Merge again every so many seconds until nothing is missing; 0: once");
  return [options] { return Merge(*options); };
}

}  // namespace dp_bench::app
