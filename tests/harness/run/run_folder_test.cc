// Files of a run folder that belong together, and files that do not.
#include "run/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "run/episode_log.h"
#include "run/manifest.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class RunFolderTest : public testing::Test {
 protected:
  /// A finished evaluation with this number of action steps, or a training if it has no checkpoint.
  fs::path Evaluation(const std::string& name, int n_action_steps,
                      bool is_evaluation = true) const {
    const fs::path folder = scratch_.path() / name;
    const std::string config = nlohmann::json{{"n_action_steps", n_action_steps}}.dump();
    nlohmann::json manifest = {{"plugins", nlohmann::json::array()}};
    if (is_evaluation) manifest["checkpoint"] = {{"folder", "c"}, {"weights", "ema"}};
    const std::string with_id = WithRunId(manifest.dump(), config);
    WriteEpisodeLog(folder, {.records = {{.split = "test", .seed = 1, .n_steps = n_action_steps}}},
                    0, RunIdOf(with_id));
    core::WriteFileAtomically(folder / "config.json", config);
    core::WriteFileAtomically(folder / "manifest.json", with_id);
    return folder;
  }

  ScratchFolder scratch_;
};

TEST_F(RunFolderTest, AFinishedOneIsReadAndFinished) {
  const RunFolder run = ReadRunFolder(Evaluation("a", 8));
  EXPECT_EQ(run.episodes.size(), 1U);
  EXPECT_EQ(run.unfinished, "");
  RequireFinished(run);
}

TEST_F(RunFolderTest, AFileOfAnotherRunIsNamed) {
  const fs::path b = Evaluation("b", 4);
  const struct {
    const char* file;
    const char* message;
  } kMixed[] = {{"config.json", "whose config.json has the SHA-256"},
                {"manifest.json", "manifest.json is of run"},
                {"episodes.jsonl", "those in episodes.jsonl have"},
                {"eval_log.json", "eval_log.json is of run"}};
  for (const auto& mixed : kMixed) {
    const fs::path a = Evaluation("a", 8);
    fs::copy(b / mixed.file, a / mixed.file, fs::copy_options::overwrite_existing);
    EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { ReadRunFolder(a); }),
                AllOf(HasSubstr("not of one run"), HasSubstr(mixed.message)))
        << mixed.file;
  }
}

TEST_F(RunFolderTest, WithoutItsResultItIsUnfinishedWithTheCommandThatContinues) {
  for (const char* missing : {"eval_log.json", "episodes.jsonl"}) {
    const fs::path folder = Evaluation("a", 8);
    fs::remove(folder / missing);
    EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { RequireFinished(ReadRunFolder(folder)); }),
                AllOf(HasSubstr(missing),
                      HasSubstr("continue with dp_bench eval --resume " + folder.string())));
  }
  const fs::path begun = Evaluation("a", 8);
  fs::remove(begun / "config.json");
  EXPECT_THAT(ReadRunFolder(begun).unfinished, HasSubstr("start it over"));
  const fs::path training = Evaluation("t", 8, /*is_evaluation=*/false);
  fs::remove(training / "episodes.jsonl");
  EXPECT_THAT(ReadRunFolder(training).unfinished, HasSubstr("dp_bench run --resume"));
}

TEST_F(RunFolderTest, OfAVersionWithoutIdsIsReadAsItIs) {
  const fs::path folder = Evaluation("a", 8);
  core::WriteFileAtomically(folder / "manifest.json",
                            WithoutRunId(core::ReadTextFile(folder / "manifest.json", 1000)));
  fs::remove(folder / "eval_log.json");
  core::WriteFileAtomically(folder / "config.json", "{}");
  EXPECT_EQ(ReadRunFolder(folder).unfinished, "");
}

TEST_F(RunFolderTest, ALogThatIsTooLargeCostsOnlyTheCurves) {
  const fs::path folder = Evaluation("a", 8);
  const fs::path log = folder / "logs.json.txt";
  core::WriteFileAtomically(log, "{\"epoch\": 0, \"train_loss\": 0.5}\n");
  EXPECT_EQ(ReadRunFolder(folder).curves.size(), 1U);
  fs::resize_file(log, kMaxLogBytes + 1);  // sparse
  const RunFolder run = ReadRunFolder(folder);
  EXPECT_EQ(run.episodes.size(), 1U);
  EXPECT_TRUE(run.curves.empty());
  EXPECT_THAT(run.notes,
              testing::Contains("logs.json.txt is larger than 1 GiB: no learning curves"));
  RequireFinished(run);
}

TEST(RunTitle, NamesTheWorldAndTheTask) {
  const auto title = [](const char* name, const char* env, const char* task) {
    RunFolder folder;
    folder.config = nlohmann::json{{"name", name},
                                   {"policy", {{"plugin", "act"}}},
                                   {"env", {{"plugin", env}, {"params", {{"task", task}}}}}}
                        .dump();
    return RunTitle(folder);
  };
  EXPECT_EQ(title("metaworld", "gymnasium", "push-v3"), "act on metaworld, push-v3");
  EXPECT_EQ(title("kuavo_rgbd", "kuavo", "lift"), "act on kuavo, lift");
  EXPECT_EQ(title("ogbench_cube", "gymnasium", ""), "act on ogbench_cube");
  EXPECT_EQ(title("", "pusht", ""), "act on pusht");
}

TEST(StaysBelow, RefusesWhatLeavesTheFolder) {
  EXPECT_TRUE(StaysBelow("media/test_1.mp4"));
  EXPECT_TRUE(StaysBelow("a/../b"));
  for (const char* path : {"", "/etc/passwd", "../x", "a/../../x", ".."}) {
    EXPECT_FALSE(StaysBelow(path)) << path;
  }
}

}  // namespace
}  // namespace dp_bench::run
