// Episodes that are written as they end, and a run that continues from them.
#include <algorithm>
#include <numeric>

#include "core/atomic_file.h"
#include "harness/rollout/fixture.h"
#include "run/episode_log.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::SizeIs;

class JournalTest : public rollout::RolloutTest {
 protected:
  JournalTest() {
    // rows with every possible field
    world_.fault_of = [](std::uint64_t seed) {
      if (seed == 100001) return rollout::Fault::kThrowInStep;
      return seed == 100002 ? rollout::Fault::kThrowInReset : rollout::Fault::kNone;
    };
    fs::create_directories(folder());
  }

  fs::path folder() const { return scratch_.path() / "run"; }
  fs::path file() const { return folder() / "episodes.jsonl"; }
  std::string Text() const { return core::ReadTextFile(file(), 1U << 20); }

  /// Runs the episodes that the journal lacks; returns the result of all episodes.
  RunResult Continue() {
    rollout::EnvRunner runner = MakeRunner();
    EpisodeJournal journal(file(), {"x_max", "x_mean", "x_last"});
    std::vector<int> places(runner.jobs().size());
    std::iota(places.begin(), places.end(), 0);
    for (const EpisodeRecord& record : journal.found()) std::erase(places, record.episode);
    rollout::FakePlanner planner(4);
    RunResult result = runner.Run(
        planner, places, {.on_episode = [&](const EpisodeRecord& r) { journal.Append(r); }});
    result.records.insert(result.records.end(), journal.found().begin(), journal.found().end());
    std::ranges::sort(result.records, {}, &EpisodeRecord::episode);
    return result;
  }
};

TEST_F(JournalTest, HoldsEachEpisodeOnceAsItEnds) {
  const RunResult result = Continue();
  const std::vector<std::string>& names = result.metric_names;
  std::vector<EpisodeRecord> rows = ParseEpisodes(Text(), "here", names);
  std::ranges::sort(rows, {}, &EpisodeRecord::episode);
  ASSERT_THAT(rows, SizeIs(8));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(EpisodeRow(rows[i], names), EpisodeRow(result.records[i], names));
    EXPECT_EQ(rows[i].metrics, result.records[i].metrics);
  }
}

TEST_F(JournalTest, CutAnywhereTheRunContinuesToTheSameFiles) {
  const RunResult whole = Continue();
  const std::string rows = Text();
  for (std::size_t cut = 0; cut <= rows.size(); cut += 37) {
    core::WriteFileAtomically(file(), rows.substr(0, cut));
    const RunResult result = Continue();
    ASSERT_EQ(EpisodesJsonl(result), EpisodesJsonl(whole)) << "cut at byte " << cut;
    ASSERT_EQ(EvalLogJson(result), EvalLogJson(whole)) << "cut at byte " << cut;
    // no episode ran twice
    ASSERT_EQ(std::ranges::count(Text(), '\n'), 8) << "cut at byte " << cut;
  }
}

TEST_F(JournalTest, ForeignRowsAreNamedByLine) {
  core::WriteFileAtomically(file(), "{\"episode\": 1}\n");
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { EpisodeJournal(file(), {}); }),
              HasSubstr("episodes.jsonl:1: not an episode's row"));
}

}  // namespace
}  // namespace dp_bench::run
