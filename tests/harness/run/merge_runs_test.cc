// Shards become one evaluation.
#include "run/merge_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "run/episode_log.h"
#include "run/manifest.h"
#include "run/run_files.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kEpisodes = 12;

class MergeRunsTest : public testing::Test {
 protected:
  static json Manifest(const std::string& cpu = "x") {
    return {{"dp_bench", "0.2.0"},
            {"plugins", json::array()},
            {"outcome_class", "no pictures"},
            {"machine", {{"cpu", cpu}, {"ranks", 1}}},
            {"checkpoint", {{"folder", "/a/" + cpu}, {"weights", "ema"}, {"sha256", "ab"}}},
            {"seeds",
             {{"report", {{"first", 100}, {"n", kEpisodes}}},
              {"selection", {{"first", 0}, {"n", 0}}},
              {"n_shared", 0}}}};
  }

  static std::string Config() {
    return json{{"env_runner", {{"n_train", 0}, {"n_test", kEpisodes}}}}.dump(2) + "\n";
  }

  static EpisodeRecord Record(int episode) {
    return {.episode = episode,
            .split = "test",
            .seed = 100 + static_cast<std::uint64_t>(episode),
            .score = 0.1 * episode,
            .success = episode % 2 == 0,
            .n_steps = 5,
            .trace_hash = "hash" + std::to_string(episode),
            .metrics = {0.5, 1.0 * episode}};
  }

  static RunResult ResultOf(const std::vector<int>& episodes) {
    RunResult result = {.metric_names = {"coverage", "path"}};
    for (const int episode : episodes) result.records.push_back(Record(episode));
    return result;
  }

  // A shard that has some of its episodes in its journal.
  fs::path AddShard(const SeedShard& shard, const std::vector<int>& episodes,
                    const std::string& cpu = "x") {
    const fs::path folder = dir_ / "runs" / shard.FolderName();
    fs::create_directories(folder);
    const std::string manifest = WithRunId(Manifest(cpu).dump(), Config());
    WriteRunHead(folder, manifest, Config());
    WriteShard(folder, shard);
    EpisodeJournal journal(folder / kJournalFile, {"coverage", "path"}, RunIdOf(manifest));
    for (const int episode : episodes) journal.Append(Record(episode));
    return folder;
  }

  fs::path AddShard(const SeedShard& shard) {
    return AddShard(shard, EpisodesOf(shard, kEpisodes));
  }

  // What one process would have written.
  void AddWhole(const fs::path& folder) {
    fs::create_directories(folder);
    std::vector<int> all = EpisodesOf({}, kEpisodes);
    WriteRunHead(folder, WithRunId(Manifest().dump(), Config()), Config());
    WriteEpisodeLog(folder, ResultOf(all), 0, RunIdOf(ReadRunManifest(folder)));
  }

  MergedRun Merge() { return MergeRuns(FindParts(std::vector<fs::path>{dir_ / "runs"})); }

  std::string Text(const fs::path& file) { return core::ReadTextFile(file, 1 << 20); }

  ScratchFolder scratch_;
  fs::path dir_ = scratch_.path();
};

// Each shard examines its env; one may see a difference that the others do not.
TEST_F(MergeRunsTest, KeepACertificateWithADifference) {
  for (const int i : {0, 1}) {
    const fs::path folder = AddShard({i, 2});
    DeterminismCertificate certificate = {.trace_hash = "hash" + std::to_string(i)};
    if (i == 1) certificate.difference = {.condition = "after other seeds", .step = 3, .key = "a"};
    json manifest = Manifest();
    manifest[kDeterminismKey] = ToJson(certificate);
    WriteRunHead(folder, WithRunId(manifest.dump(), Config()), Config());
  }
  const MergedRun merged = Merge();
  EXPECT_TRUE(merged.is_complete());
  const auto certificate = DeterminismOf(merged.manifest);
  ASSERT_TRUE(certificate.has_value());
  EXPECT_EQ(certificate->difference->step, 3);
}

TEST_F(MergeRunsTest, GiveTheFilesOfOneProcess) {
  AddWhole(dir_ / "whole");
  for (const int n : {1, 2, 3, 7, 50}) {
    fs::remove_all(dir_ / "runs");
    for (int i = n; i-- > 0;) AddShard({i, n});
    const MergedRun merged = Merge();
    EXPECT_TRUE(merged.is_complete());
    WriteMerged(merged, dir_ / "merged");
    for (const std::string_view file : {kEpisodesFile, kEvalLogFile, kManifestFile, kConfigFile}) {
      EXPECT_EQ(Text(dir_ / "merged" / file), Text(dir_ / "whole" / file)) << file << " of " << n;
    }
  }
}

TEST_F(MergeRunsTest, TakeShardsOfOtherMachinesAndOtherNumbers) {
  AddWhole(dir_ / "whole");
  AddShard({0, 2});
  AddShard({1, 2}, EpisodesOf({1, 2}, kEpisodes), "another");
  AddShard({2, 3});  // a part once more
  const MergedRun merged = Merge();
  EXPECT_TRUE(merged.is_complete());
  EXPECT_EQ(merged.n_twice, 4);
  WriteMerged(merged, dir_ / "merged");
  EXPECT_EQ(Text(dir_ / "merged" / kEpisodesFile), Text(dir_ / "whole" / kEpisodesFile));
  EXPECT_EQ(Text(dir_ / "merged" / kEvalLogFile), Text(dir_ / "whole" / kEvalLogFile));
}

TEST_F(MergeRunsTest, DoNotCountWhatAnEarlierMergeWroteAsAnotherFolder) {
  AddShard({0, 2});
  const std::vector<fs::path> runs = {dir_ / "runs"};
  WriteMerged(MergeRuns(FindParts(runs), dir_ / "runs"), dir_ / "runs");
  const MergedRun again = MergeRuns(FindParts(runs), dir_ / "runs");
  EXPECT_EQ(again.n_twice, 0);
  EXPECT_EQ(std::ranges::count(again.parts, true, &MergedPart::is_output), 1);
}

TEST_F(MergeRunsTest, SayWhatIsMissingAndKeepTheRestForAResume) {
  AddShard({0, 2});
  AddShard({1, 2}, {});
  const MergedRun merged = Merge();
  EXPECT_FALSE(merged.is_complete());
  EXPECT_EQ(merged.result.records.size(), 6U);
  EXPECT_EQ(merged.n_wanted, kEpisodes);
  ASSERT_EQ(merged.parts.size(), 2U);
  EXPECT_EQ(merged.parts[0].n_episodes, 6);
  EXPECT_EQ(merged.parts[1].n_episodes, 0);
  WriteMerged(merged, dir_ / "merged");
  EXPECT_FALSE(fs::exists(dir_ / "merged" / kEpisodesFile));
  const auto kept = EpisodeJournal::ReadEpisodes(dir_ / "merged" / kJournalFile,
                                                 {"coverage", "path"}, RunIdOf(merged.manifest));
  EXPECT_EQ(kept.size(), 6U);
}

TEST_F(MergeRunsTest, NameTheEpisodeWithTwoOutcomes) {
  AddShard({0, 2});
  const fs::path other = AddShard({0, 3}, {});
  EpisodeRecord changed = Record(EpisodesOf({0, 2}, kEpisodes)[0]);
  changed.trace_hash = "other";
  EpisodeJournal(other / kJournalFile, {"coverage", "path"}, RunIdOf(ReadRunManifest(other)))
      .Append(changed);
  const std::string fault = MessageOf(ErrorCode::kData, [&] { Merge(); });
  EXPECT_THAT(fault, HasSubstr("episode " + std::to_string(changed.episode) + " (test seed"));
  EXPECT_THAT(fault, HasSubstr("shard_0_of_3"));
}

TEST_F(MergeRunsTest, NameWhatDiffersBetweenTwoRuns) {
  AddShard({0, 2});
  const fs::path other = AddShard({1, 2});
  json manifest = Manifest();
  manifest["checkpoint"]["sha256"] = "cd";
  WriteRunHead(other, WithRunId(manifest.dump(), Config()), Config());
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { Merge(); }),
              HasSubstr("they differ in manifest/checkpoint/sha256"));
}

TEST_F(MergeRunsTest, RefuseAFolderOfAnotherRun) {
  AddShard({0, 1});
  json manifest = Manifest();
  manifest["dp_bench"] = "0.1.0";
  fs::create_directories(dir_ / "merged");
  WriteRunHead(dir_ / "merged", WithRunId(manifest.dump(), Config()), Config());
  EXPECT_EQ(CodeOf([&] { WriteMerged(Merge(), dir_ / "merged"); }), ErrorCode::kUsage);
}

TEST_F(MergeRunsTest, NeedAnEvaluation) {
  fs::create_directories(dir_ / "runs");
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { Merge(); }),
              HasSubstr("no evaluation and no shards of one"));
}

// The rows of a rank that mpirun lost.
TEST_F(MergeRunsTest, ReadTheJournalsOfAllRanks) {
  const fs::path folder = AddShard({0, 1}, {0, 1, 2});
  EpisodeJournal(JournalOf(folder, 3), {"coverage", "path"}, RunIdOf(ReadRunManifest(folder)))
      .Append(Record(7));
  EXPECT_EQ(Merge().result.records.size(), 4U);
}

}  // namespace
}  // namespace dp_bench::run
