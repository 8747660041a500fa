// The output of an evaluation: the journal, its rows, pages and baselines.
#include <gtest/gtest.h>

#include "compare/gate.h"
#include "compare/run_comparison.h"
#include "core/atomic_file.h"
#include "harness/compare/run_folders.h"
#include "harness/writers/single_fault.h"
#include "report/comparison_report.h"
#include "report/html_report.h"
#include "run/episode_log.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;
using enum FaultyCall;

constexpr std::size_t kMaxPageBytes = std::size_t{16} << 20;

// An evaluation of three episodes and a baseline or page of it as `file`.
Writer OfRun(const char* name, const char* file,
             const std::function<void(const fs::path& run, const fs::path& file)>& write) {
  return {.name = name,
          .calls = {kOpen, kWrite, kFsync, kRename},
          .prepare =
              [=](const fs::path& folder) {
                compare::WriteSmallRun(folder, "sff");
                write(folder, folder / file);
                fs::rename(folder / file, folder / kNew);
                core::WriteFileAtomically(folder / file, kOld);
              },
          .write = [=](const fs::path& folder) { write(folder, folder / file); },
          .find = [=](const fs::path& folder) -> std::string {
            const std::string text = core::ReadTextFile(folder / file, kMaxPageBytes);
            return text == core::ReadTextFile(folder / kNew, kMaxPageBytes) ? kNew : text;
          }};
}

TEST(ReportFaults, ABaselineIsTheOldOneOrTheNewOne) {
  FailEachCallOnce(
      OfRun("baseline", "baseline.json", [](const fs::path& run, const fs::path& file) {
        core::WriteFileAtomically(file, compare::BaselineJson(run::ReadRunFolder(run)));
      }));
}

TEST(ReportFaults, AReportIsTheOldOneOrTheNewOne) {
  FailEachCallOnce(
      OfRun("report", "report.html", [](const fs::path& run, const fs::path& /*file*/) {
        report::WriteHtmlReport(run::ReadRunFolder(run));
      }));
}

TEST(ReportFaults, AComparisonIsTheOldOneOrTheNewOne) {
  FailEachCallOnce(
      OfRun("comparison", "comparison.html", [](const fs::path& run, const fs::path& file) {
        const std::vector<run::RunFolder> runs(2, run::ReadRunFolder(run));
        report::WriteComparisonReport(compare::CompareRuns(runs, {}), file);
      }));
}

TEST(ReportFaults, EachFileOfTheResultsIsTheOldOneOrTheNewOne) {
  const auto write = [](const fs::path& folder, const char* outcomes) {
    run::WriteEpisodeLog(folder, {.records = compare::SmallEpisodes(outcomes)});
  };
  FailEachCallOnce({.name = "results",
                    .calls = {kOpen, kWrite, kFsync, kRename},
                    .prepare = [=](const fs::path& folder) { write(folder, "sff"); },
                    .write = [=](const fs::path& folder) { write(folder, "sfs"); },
                    .find = [](const fs::path& folder) -> std::string {
                      const run::RunFolder run = run::ReadRunFolder(folder);
                      if (run.episodes.size() != 3) return "lost episodes";
                      const bool is_new =
                          run.eval_log.at("test/n_success") == 2 && run.episodes[2].success;
                      return is_new ? kNew : kOld;
                    }});
}

TEST(ReportFaults, AJournalKeepsItsEpisodesAndGoesOn) {
  const std::vector<run::EpisodeRecord> records = compare::SmallEpisodes("sfx");
  const auto write = [records](const fs::path& folder, std::size_t n) {
    run::EpisodeJournal journal(folder / "journal.jsonl", {});
    for (std::size_t i = journal.found().size(); i < n; ++i) journal.Append(records[i]);
  };
  FailEachCallOnce({.name = "journal",
                    .calls = {kOpen, kWrite, kFsync, kTruncate},
                    .prepare = [=](const fs::path& folder) { write(folder, 2); },
                    .write = [=](const fs::path& folder) { write(folder, 3); },
                    .find = [](const fs::path& folder) -> std::string {
                      const run::EpisodeJournal journal(folder / "journal.jsonl", {});
                      const std::size_t n = journal.found().size();
                      return n == 2 ? kOld : n == 3 ? kNew : "another number of rows";
                    }});
}

}  // namespace
}  // namespace dp_bench
