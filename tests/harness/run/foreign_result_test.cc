#include "run/foreign_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What lerobot 0.6's lerobot-eval writes.
constexpr const char* kPerTask = R"({
  "per_task": [
    {"task_group": "libero_10", "task_id": 1, "metrics": {"sum_rewards": [3.0, 0.5], "max_rewards": [1.0, 0.25],
      "successes": [true, false], "video_paths": ["videos/libero_10_1/eval_episode_0.mp4"]}},
    {"task_group": "libero_10", "task_id": 0, "metrics": {"sum_rewards": [0.0], "max_rewards": [0.0],
      "successes": [false], "video_paths": []}}],
  "per_group": {"libero_10": {"pc_success": 33.3, "n_episodes": 3}},
  "overall": {"pc_success": 33.3, "n_episodes": 3, "eval_s": 12.5}})";

// What lerobot 0.3's eval.py writes.
constexpr const char* kPerEpisode = R"({
  "per_episode": [
    {"episode_ix": 0, "sum_reward": 12.5, "max_reward": 0.75, "success": false, "seed": 1000},
    {"episode_ix": 1, "sum_reward": 80.0, "max_reward": 1.0, "success": true, "seed": 1001}],
  "aggregated": {"pc_success": 50.0}})";

constexpr const char* kVlaEval = R"({
  "benchmark": "libero", "mode": "sync", "harness_version": "0.8.0", "tasks": [
    {"task": "put the bowl on the plate", "num_episodes": 2, "episodes": [
      {"episode_id": 0, "metrics": {"success": true}, "steps": 80, "elapsed_sec": 4.0},
      {"episode_id": 1, "steps": 3, "elapsed_sec": 0.2, "failure_reason": "timeout"}]}],
  "config": {}, "seed": 7, "metric_keys": ["success"], "mean_success": 0.5})";

constexpr const char* kDiffusionPolicy = R"({
  "test/mean_score": 0.9, "test/sim_max_reward_100001": 1.0, "test/sim_max_reward_100000": 0.8,
  "test/sim_video_100000": "media/a.mp4", "train/sim_max_reward_0": 1.0})";

std::vector<std::uint64_t> Seeds(const RunFolder& run) {
  std::vector<std::uint64_t> seeds;
  for (const EpisodeRecord& record : run.episodes) seeds.push_back(record.seed);
  return seeds;
}

std::vector<bool> Successes(const RunFolder& run) {
  std::vector<bool> successes;
  for (const EpisodeRecord& record : run.episodes) successes.push_back(record.success);
  return successes;
}

std::string Fault(const std::string& text) {
  return MessageOf(ErrorCode::kData, [&] { ParseForeignResult(text, "results"); });
}

TEST(ForeignResult, ReadsLerobotsTasksByName) {
  const RunFolder run = ParseForeignResult(kPerTask, "eval_info.json");
  EXPECT_EQ(run.seed_origin, "LeRobot");
  EXPECT_FALSE(run.has_seeds);
  EXPECT_THAT(run.tasks, ElementsAre("libero_10/0", "libero_10/1"));
  EXPECT_THAT(Seeds(run), ElementsAre(0, kSeedsPerTask, kSeedsPerTask + 1));
  EXPECT_THAT(Successes(run), ElementsAre(false, true, false));
  EXPECT_EQ(run.episodes[2].score, 0.25);
  EXPECT_EQ(run.episodes[2].episode, 2);
  EXPECT_EQ(run.episodes[2].split, "test");
}

TEST(ForeignResult, ReadsTheSeedsOfOlderLerobot) {
  const RunFolder run = ParseForeignResult(kPerEpisode, "eval_info.json");
  EXPECT_TRUE(run.has_seeds);
  EXPECT_THAT(Seeds(run), ElementsAre(1000, 1001));
  EXPECT_EQ(run.episodes[0].score, 0.75);
  const RunFolder unseeded = ParseForeignResult(
      R"({"per_episode": [{"success": true, "max_reward": 1.0, "seed": null}]})", "eval_info.json");
  EXPECT_FALSE(unseeded.has_seeds);
}

TEST(ForeignResult, ReadsVlaEvalWithItsBrokenEpisodes) {
  const RunFolder run = ParseForeignResult(kVlaEval, "results.json");
  EXPECT_THAT(run.tasks, ElementsAre("put the bowl on the plate"));
  EXPECT_THAT(Seeds(run), ElementsAre(0, 1));
  EXPECT_THAT(Successes(run), ElementsAre(true, false));
  EXPECT_EQ(run.episodes[0].score, 1.0);
  EXPECT_EQ(run.episodes[1].failure_reason, "timeout");
}

TEST(ForeignResult, ReadsTheTestRewardsOfDiffusionPolicy) {
  const RunFolder run = ParseForeignResult(kDiffusionPolicy, "eval_log.json");
  EXPECT_THAT(Seeds(run), ElementsAre(100000, 100001));
  EXPECT_THAT(Successes(run), ElementsAre(false, true));
  EXPECT_THAT(run.notes, ElementsAre(HasSubstr("if its highest reward is 1")));
}

TEST(ForeignResult, ReadsATable) {
  const RunFolder run = ParseForeignResult(
      "task,success,seed\r\n\"push, slowly\",1,5\r\nlift,False,5\r\n\n", "results.csv");
  EXPECT_THAT(run.tasks, ElementsAre("lift", "push, slowly"));
  EXPECT_THAT(Seeds(run), ElementsAre(5, kSeedsPerTask + 5));
  EXPECT_THAT(Successes(run), ElementsAre(false, true));
  EXPECT_EQ(run.episodes[1].score, 1.0);
  const RunFolder scored = ParseForeignResult("seed,success,score\n7,0,0.5", "results.csv");
  EXPECT_EQ(scored.episodes[0].score, 0.5);
  EXPECT_TRUE(scored.tasks.empty());
}

TEST(ForeignResult, ReadsTablesAsSpreadsheetsAndPandasWriteThem) {
  for (const char* text :
       {"\xEF\xBB\xBFseed,success,task\r\n5,TRUE,lift\r\n6,FALSE,lift\r\n",
        "Seed, Success, Task\n 5 , yes , \"lift\"\n6\t,No,lift \n  \n",
        "\"seed\",\"success\",\"task\"\n\"5\",\"True\",\"lift\"\n\"6\",\"0.0\",\"lift\"\n"}) {
    const RunFolder run = ParseForeignResult(text, "results.csv");
    EXPECT_THAT(run.tasks, ElementsAre("lift")) << text;
    EXPECT_THAT(Seeds(run), ElementsAre(5, 6)) << text;
    EXPECT_THAT(Successes(run), ElementsAre(true, false)) << text;
  }
  EXPECT_EQ(
      ParseForeignResult("\xEF\xBB\xBF{\"test/sim_max_reward_7\": 1}", "a.json").episodes.size(),
      1);
}

TEST(ForeignResult, NamesThePlaceOfAFault) {
  EXPECT_THAT(Fault("seed,score\n1,2\n"), HasSubstr("results, line 1: expected a run folder"));
  EXPECT_THAT(Fault("seed,success\n1,2\n"),
              HasSubstr("results, line 2: expected success as 1 or 0"));
  EXPECT_THAT(Fault("seed,success\nx,1\n"), HasSubstr("line 2: expected a seed, found 'x'"));
  EXPECT_THAT(Fault("seed,success\n1,1,1\n"), HasSubstr("expected 2 columns, found 3"));
  EXPECT_THAT(Fault("seed,success\n\"1,1\n"), HasSubstr("a quote is not closed"));
  EXPECT_THAT(Fault("seed,success,score\n1,1,nan\n"), HasSubstr("expected a finite score"));
  EXPECT_THAT(Fault("seed,success\n"), HasSubstr("found none"));
  EXPECT_THAT(Fault("task,seed,success\na,1000000,1\nb,1,1\n"), HasSubstr("not below 1000000"));
  EXPECT_THAT(Fault(""), HasSubstr("expected a run folder"));
  EXPECT_THAT(Fault(R"({"a": 1})"), HasSubstr("found none"));
  EXPECT_THAT(
      Fault(R"({"per_task": [{"task_group": "a", "task_id": 0, "metrics": {"successes": [true],
                    "max_rewards": []}}]})"),
      HasSubstr("per_task.0.metrics: expected as many successes as max_rewards"));
  EXPECT_THAT(Fault(R"({"tasks": [{"task": "a", "episodes": []}, {"task": "a", "episodes": []}]})"),
              HasSubstr("two tasks have the name 'a'"));
  EXPECT_THAT(Fault(R"({"test/sim_max_reward_x": 1.0})"), HasSubstr("expected a seed behind"));
  EXPECT_THAT(Fault(R"({"run_id": "12", "test/sim_max_reward_1": 1.0})"),
              HasSubstr("give its folder"));
}

TEST(ReadResult, FindsTheFileInTheFolderOfAnotherProgram) {
  ScratchFolder scratch;
  std::ofstream(scratch.path() / "eval_info.json") << kPerEpisode;
  EXPECT_EQ(ReadResult(scratch.path()).episodes.size(), 2U);
  EXPECT_EQ(ReadResult(scratch.path() / "eval_info.json").seed_origin, "LeRobot");
  std::ofstream(scratch.path() / "manifest.json") << "{}";
  EXPECT_TRUE(ReadResult(scratch.path()).episodes.empty());  // dp_bench's own folder
  EXPECT_EQ(CodeOf([&] { ReadResult(scratch.path() / "nothing.csv"); }), ErrorCode::kIo);
}

}  // namespace
}  // namespace dp_bench::run
