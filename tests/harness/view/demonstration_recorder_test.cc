// A person's episodes become a dataset.
#include "view/demonstration_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/view/stage_env.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"
#include "view/player.h"

namespace dp_bench::view {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DemonstrationsTest : public testing::Test {
 protected:
  DemonstrationsTest() {
    world_.end_of = [](std::uint64_t seed) { return seed == 5 ? 1 << 30 : 4; };
  }

  // Drags through the episodes of these seeds; returns their final notes.
  std::vector<std::string> Record(std::uint64_t first, int n_episodes) {
    PointerSource human(env_);
    DemonstrationRecorder demonstrations(env_, folder_, origin_);
    Player player(env_, human, &demonstrations, {.first_seed = first});
    player.Point({.x = 0.5, .y = 0.25, .is_down = true});
    std::vector<std::string> notes;
    double now = 0.0;
    for (int i = 0; i < n_episodes; ++i) {
      while (!player.status().is_over) player.Advance(now += 1.0);
      notes.push_back(player.status().note);
      player.Apply(Command::kNextEpisode);
    }
    return notes;
  }

  const ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_.path() / "human.zarr";
  const json origin_ = DemonstrationOrigin(R"({"plugin": "stage"})", "1.0.0");
  rollout::FakeWorld world_;
  StageEnv env_{world_};
};

TEST_F(DemonstrationsTest, SuccessfulEpisodesAreKeptWithTheirSeeds) {
  EXPECT_THAT(Record(4, 3), ElementsAre("recorded, 1 in the dataset", "not recorded: no success",
                                        "recorded, 2 in the dataset"));
  const json attributes = data::ReadReplayAttributes(folder_);
  EXPECT_THAT(attributes.at("episodes").at("seed"), ElementsAre(4U, 6U));
  EXPECT_EQ(attributes.at("n_steps"), 8);
  EXPECT_EQ(attributes.at("complete"), true);
  EXPECT_EQ(attributes.at("fps"), 10.0);
  EXPECT_EQ(zarr::ZarrArrayWriter::RowsOnDisk(folder_ / "data/action"), 8);
  EXPECT_EQ(zarr::ZarrArrayWriter::RowsOnDisk(folder_ / "data/pixels"), 8);
  EXPECT_EQ(zarr::ZarrArrayWriter::RowsOnDisk(folder_ / "meta/episode_ends"), 2);
}

TEST_F(DemonstrationsTest, ALaterSessionContinues) {
  Record(4, 1);
  EXPECT_THAT(Record(8, 1), ElementsAre("recorded, 2 in the dataset"));
  EXPECT_THAT(data::ReadReplayAttributes(folder_).at("episodes").at("seed"), ElementsAre(4U, 8U));
}

TEST_F(DemonstrationsTest, ARestartForgetsWhatWasDragged) {
  PointerSource human(env_);
  DemonstrationRecorder demonstrations(env_, folder_, origin_);
  Player player(env_, human, &demonstrations, {.first_seed = 4});
  player.Point({.x = 0.5, .y = 0.25, .is_down = true});
  player.Advance(1.0);
  player.Apply(Command::kRestart);
  for (double now = 2.0; !player.status().is_over; now += 1.0) player.Advance(now);
  EXPECT_EQ(zarr::ZarrArrayWriter::RowsOnDisk(folder_ / "data/action"), 4);
}

TEST_F(DemonstrationsTest, AnotherEnvsFolderIsRefused) {
  Record(4, 1);
  const json other = DemonstrationOrigin(R"({"plugin": "another"})", "1.0.0");
  EXPECT_EQ(CodeOf([&] { DemonstrationRecorder demonstrations(env_, folder_, other); }),
            ErrorCode::kUsage);
}

TEST_F(DemonstrationsTest, DamagedAttributesAreNamed) {
  Record(4, 1);
  json attributes = data::ReadReplayAttributes(folder_);
  attributes["episodes"] = "none";
  std::ofstream(folder_ / ".zattrs") << attributes;
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { Record(5, 1); }),
              HasSubstr(".zattrs: episodes: expected an object"));
}

}  // namespace
}  // namespace dp_bench::view
