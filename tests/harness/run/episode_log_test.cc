// The files of an evaluation.
#include "run/episode_log.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "harness/rollout/fixture.h"

namespace dp_bench::run {
namespace {

using RolloutTest = rollout::RolloutTest;

using nlohmann::json;

RunResult TwoEpisodes() {
  RunResult result;
  result.metric_names = {"coverage"};
  result.records = {{.episode = 0,
                     .split = "test",
                     .seed = 100000,
                     .score = 0.1 + 0.2,
                     .success = true,
                     .n_steps = 17,
                     .trace_hash = "ab",
                     .metrics = {0.25},
                     .video = "media/test_100000.mp4"},
                    {.episode = 1,
                     .split = "test",
                     .seed = 100001,
                     .trace_hash = "cd",
                     .failure_reason = "step 3: \"quoted\"\nand \xff not UTF-8"}};
  return result;
}

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(EpisodeLog, WritesOneRowPerEpisode) {
  const std::string text = EpisodesJsonl(TwoEpisodes());
  EXPECT_EQ(text.substr(0, text.find('\n')),
            R"({"episode":0,"failure_reason":null,"metrics":{"coverage":0.25},"n_steps":17,)"
            R"("score":0.30000000000000004,"seed":100000,"split":"test","success":true,)"
            R"("trace_hash":"ab","video":"media/test_100000.mp4"})");
  EXPECT_EQ(std::ranges::count(text, '\n'), 2);

  const json failed = json::parse(text.substr(text.find('\n')));
  EXPECT_EQ(failed["failure_reason"], "step 3: \"quoted\"\nand \xEF\xBF\xBD not UTF-8");
  EXPECT_TRUE(failed["video"].is_null());
  EXPECT_TRUE(failed["metrics"].empty());
}

TEST(EpisodeLog, RowSaysWhyAVideoIsMissing) {
  RunResult result = TwoEpisodes();
  EXPECT_EQ(EpisodesJsonl(result).find("video_error"), std::string::npos);
  result.records[0].video = "";
  result.records[0].video_error = "disk full";
  const std::string text = EpisodesJsonl(result);
  EXPECT_EQ(json::parse(text.substr(0, text.find('\n')))["video_error"], "disk full");
}

TEST(EpisodeLog, EpisodesWithoutVideoForOneReasonShareALine) {
  RunResult result = TwoEpisodes();
  EXPECT_TRUE(MissingVideos(result.records).empty());
  for (EpisodeRecord& record : result.records) record.video_error = "disk full";
  EXPECT_EQ(MissingVideos(result.records),
            (std::vector<std::string>{"test seed 100000, test seed 100001: no video: disk full"}));
  result.records[1].video_error = "black";
  EXPECT_EQ(MissingVideos(result.records).size(), 2U);
}

TEST(EpisodeLog, EvalLogHasTheKeysOfDiffusionPolicy) {
  const json log = json::parse(EvalLogJson(TwoEpisodes()));
  EXPECT_EQ(log["test/mean_score"], (0.1 + 0.2) / 2);
  EXPECT_EQ(log["test/success_rate"], 0.5);
  EXPECT_EQ(log["test/n_episodes"], 2);
  EXPECT_EQ(log["test/n_success"], 1);
  EXPECT_EQ(log["test/n_failed"], 1);
  EXPECT_EQ(log["test/mean_coverage"], 0.25);
  EXPECT_EQ(log["test/sim_max_reward_100000"], 0.1 + 0.2);
  EXPECT_EQ(log["test/sim_max_reward_100001"], 0.0);
  EXPECT_EQ(log["test/sim_video_100000"], "media/test_100000.mp4");
  EXPECT_FALSE(log.contains("test/sim_video_100001"));
  EXPECT_FALSE(log.contains("train/mean_score"));
  EXPECT_FALSE(log.contains("test/n_selection_seeds"));
}

TEST(EpisodeLog, EvalLogIsMarkedWhereTheTrainingSawItsSeeds) {
  EXPECT_EQ(json::parse(EvalLogJson(TwoEpisodes(), 1))["test/n_selection_seeds"], 1);
}

TEST_F(RolloutTest, EqualRunsLeaveEqualFiles) {
  WriteEpisodeLog(scratch_.path() / "new" / "a", Run());
  config_.n_workers = 3;
  WriteEpisodeLog(scratch_.path() / "new" / "b", Run());
  for (const char* name : {"episodes.jsonl", "eval_log.json"}) {
    const std::string text = ReadText(scratch_.path() / "new" / "a" / name);
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(text, ReadText(scratch_.path() / "new" / "b" / name));
  }
}

TEST_F(RolloutTest, LogInAFolderThatCannotBeMadeNamesIt) {
  std::ofstream(scratch_.path() / "file") << "in the way";
  EXPECT_THAT(MessageOf(ErrorCode::kIo,
                        [&] { WriteEpisodeLog(scratch_.path() / "file" / "x", TwoEpisodes()); }),
              testing::HasSubstr((scratch_.path() / "file" / "x").string()));
}

}  // namespace
}  // namespace dp_bench::run
