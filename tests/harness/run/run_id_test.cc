// The id of a run is derived from its config and manifest, and its files contain it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/sha256.h"
#include "run/episode_log.h"
#include "run/manifest.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* kManifest = R"({"dp_bench": "0.2.0", "plugins": []})";
constexpr const char* kConfig = R"({"n_action_steps": 8, "training": {"seed": 42}})";

std::string IdOf(const std::string& manifest, const std::string& config) {
  return RunIdOf(WithRunId(manifest, config));
}

TEST(RunId, FollowsFromConfigAndManifestAlone) {
  const std::string id = IdOf(kManifest, kConfig);
  EXPECT_THAT(id, SizeIs(16));
  EXPECT_EQ(IdOf(kManifest, kConfig), id);
  EXPECT_EQ(IdOf(WithRunId(kManifest, kConfig), kConfig), id) << "an id is no part of itself";
  EXPECT_NE(IdOf(R"({"dp_bench": "0.2.1", "plugins": []})", kConfig), id);
  EXPECT_NE(IdOf(kManifest, R"({"n_action_steps": 4, "training": {"seed": 42}})"), id);
  EXPECT_EQ(json::parse(WithoutRunId(WithRunId(kManifest, kConfig))), json::parse(kManifest));
}

TEST(RunId, ATrainingThatIsContinuedKeepsIt) {
  const char* resumed = R"({"n_action_steps": 8, "training": {"seed": 42, "resume": true}})";
  EXPECT_EQ(IdOf(kManifest, resumed), IdOf(kManifest, kConfig));
}

// The outcome class says what matters of a machine, the hash which weights a checkpoint has.
TEST(RunId, TheMachineAndThePlaceOfTheCheckpointAreNoPartOfIt) {
  const auto id = [](const std::string& cpu, const std::string& folder, const std::string& hash) {
    const json manifest = {{"plugins", json::array()},
                           {"machine", {{"cpu", cpu}, {"ranks", 1}}},
                           {"checkpoint", {{"folder", folder}, {"sha256", hash}}}};
    return IdOf(manifest.dump(), kConfig);
  };
  EXPECT_EQ(id("x", "/a", "1"), id("y", "/b", "1"));
  EXPECT_NE(id("x", "/a", "1"), id("x", "/a", "2"));
}

// Builds before them did not note them, and a checkpoint outside of its run does not know them.
TEST(RunId, TheSeedsOfTheDatasetAreNoPartOfIt) {
  const SeedUse use = {.report = {100000, 4}};
  SeedUse trained = use;
  trained.demonstrations = {{1000000, 206}};
  const auto id = [](const SeedUse& seeds) {
    return IdOf(json{{"plugins", json::array()}, {"seeds", ToJson(seeds)}}.dump(), kConfig);
  };
  EXPECT_EQ(id(trained), id(use));
  EXPECT_NE(id({.report = {100000, 5}}), id(use));
}

TEST(RunId, OfAnOldVersionOrNoJsonIsEmpty) {
  EXPECT_EQ(RunIdOf(kManifest), "");
  EXPECT_EQ(RunIdOf("{"), "");
}

TEST(RunId, TheEvaluationsResultNamesRunAndEpisodes) {
  const ScratchFolder scratch;
  const RunResult result = {.records = {{.episode = 0, .split = "test", .seed = 7}}};
  WriteEpisodeLog(scratch.path(), result, 0, "0123456789abcdef");
  const json log = json::parse(core::ReadTextFile(scratch.path() / "eval_log.json", 10000));
  EXPECT_EQ(log.at("run_id"), "0123456789abcdef");
  EXPECT_EQ(log.at("episodes_sha256"), core::Sha256Hex(EpisodesJsonl(result)));
  EXPECT_FALSE(json::parse(EvalLogJson(result)).contains("run_id"));
}

TEST(RunId, TheJournalRefusesEpisodesOfAnotherRun) {
  const ScratchFolder scratch;
  const auto file = scratch.path() / "episodes.partial.jsonl";
  EpisodeJournal(file, {}, "aaaa").Append({.episode = 3, .split = "test", .seed = 7});
  EXPECT_THAT(EpisodeJournal(file, {}, "aaaa").found(), SizeIs(1));
  EXPECT_EQ(core::ReadTextFile(file, 1000).find("{\"run_id\":\"aaaa\"}\n"), 0U);
  EXPECT_THAT(
      MessageOf(ErrorCode::kData, [&] { EpisodeJournal(file, {}, "bbbb"); }),
      HasSubstr("has episodes of run aaaa, but the manifest.json next to it is of run bbbb"));

  // cut within its first line, it starts over; without an id it is from an old version
  core::WriteFileAtomically(file, std::string_view("{\"run_id\":"));
  EXPECT_THAT(EpisodeJournal(file, {}, "bbbb").found(), SizeIs(0));
  EXPECT_EQ(core::ReadTextFile(file, 1000), "{\"run_id\":\"bbbb\"}\n");
  core::WriteFileAtomically(file, EpisodeRow({.episode = 1, .split = "test"}, {}) + "\n");
  EXPECT_THAT(EpisodeJournal(file, {}, "bbbb").found(), SizeIs(1));
}

TEST(RunId, TheJournalCountsItsFirstLineInMessages) {
  const ScratchFolder scratch;
  const auto file = scratch.path() / "journal";
  core::WriteFileAtomically(file, "{\"run_id\":\"aaaa\"}\n{\"episode\": 1}\n");
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { EpisodeJournal(file, {}, "aaaa"); }),
              HasSubstr("journal:2: not an episode's row"));
}

}  // namespace
}  // namespace dp_bench::run
