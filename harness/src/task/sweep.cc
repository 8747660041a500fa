#include "task/sweep.h"

#include "core/console.h"
#include "core/exit_code.h"
#include "run/run_contents.h"

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

}  // namespace dp_bench::task
