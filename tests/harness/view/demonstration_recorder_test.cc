// A person's episodes become a dataset.
#include "view/demonstration_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using ::testing::IsEmpty;

class DemonstrationsTest : public testing::Test {
 protected:
  DemonstrationsTest() {
    world_.end_of = [](std::uint64_t seed) { return seed == 5 ? 1 << 30 : 4; };
  }

  // Drags through the episodes of these seeds; returns their final notes.
  std::vector<std::string> Record(std::uint64_t first, int n_episodes) {
    PointerSource human(env_);
    DemonstrationRecorder demonstrations(env_, folder_, origin_);
    Player player(env_, human, &demonstrations, {.first_episode = first});
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
  EXPECT_THAT(RepeatableSeeds(folder_, "stage"), ElementsAre(4U, 6U));
  const json attributes = data::ReadReplayAttributes(folder_);
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
  EXPECT_THAT(RepeatableSeeds(folder_, "stage"), ElementsAre(4U, 8U));
}

TEST_F(DemonstrationsTest, ARestartForgetsWhatWasDragged) {
  PointerSource human(env_);
  DemonstrationRecorder demonstrations(env_, folder_, origin_);
  Player player(env_, human, &demonstrations, {.first_episode = 4});
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
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { RepeatableSeeds(folder_, "another"); }),
              HasSubstr("recorded in the env 'stage', not in 'another'"));
}

TEST_F(DemonstrationsTest, ActionsRecordedWithoutTheirNoiseDoNotRepeatTheEpisode) {
  data::ReplayWriter writer(folder_, env_.spec().shape_meta.obs, {{"action_noise", 0.02}});
  writer.Commit({{"episodes", {{"seed", {1, 2}}}}}, true);
  EXPECT_THAT(RepeatableSeeds(folder_, "stage"), IsEmpty());
}

TEST_F(DemonstrationsTest, AForeignDatasetHasNoSeeds) {
  EXPECT_THAT(RepeatableSeeds(scratch_.path(), "stage"), IsEmpty());
}

TEST_F(DemonstrationsTest, DamagedAttributesAreNamed) {
  data::ReplayWriter writer(folder_, env_.spec().shape_meta.obs, origin_);
  writer.Commit({{"episodes", "none"}}, true);
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { RepeatableSeeds(folder_, "stage"); }),
              HasSubstr(".zattrs: episodes: expected an object"));
}

}  // namespace
}  // namespace dp_bench::view
