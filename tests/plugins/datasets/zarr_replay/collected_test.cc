// Data sets of the harness's own writer, read without a map of keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/replay_writer.h"
#include "small_replay.h"
#include "support/error_of.h"

namespace dp_bench::zarr_replay::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<KeySpec> kKeys = {
    {.name = "action", .shape = {2}},
    {.name = "depth", .type = KeyType::kDepth, .shape = {1, 3, 5}, .dtype = DType::kUInt16},
    {.name = "observation.state", .shape = {3}},
    {.name = "rgb", .type = KeyType::kRgb, .shape = {3, 3, 5}, .dtype = DType::kUInt8}};

// Every value of a step is its number, as the key's dtype.
data::ReplayEpisode Episode(std::int64_t first, std::int64_t n) {
  data::ReplayEpisode episode(kKeys);
  for (std::int64_t step = first; step < first + n; ++step) {
    const std::vector<float> numbers(3, static_cast<float>(step));
    const std::vector<std::uint16_t> depth(15, static_cast<std::uint16_t>(1000 * step));
    const std::vector<std::uint8_t> pixels(45, static_cast<std::uint8_t>(step));
    const std::vector<std::span<const std::byte>> values = {
        std::as_bytes(std::span(numbers).first(2)), std::as_bytes(std::span(depth)),
        std::as_bytes(std::span(numbers)), std::as_bytes(std::span(pixels))};
    episode.Append(values);
  }
  return episode;
}

TEST(Collected, EveryArrayIsAKeyOfItsOwnTypeAndName) {
  const TemporaryFolder folder;
  {
    data::ReplayWriter writer(folder.path() / "a", kKeys, {{"env", "toy"}});
    writer.Append(Episode(0, 4));
    writer.Append(Episode(4, 2));
    writer.Commit({{"fps", 25.0}}, true);
  }
  const ZarrReplayDataset dataset({.path = folder.path() / "a"});
  EXPECT_EQ(dataset.spec().keys, kKeys);
  EXPECT_EQ(dataset.spec().fps, 25.0);
  EXPECT_THAT(dataset.episode_ends(), ElementsAre(4, 6));
  EXPECT_EQ(ReadAll<float>(dataset, "action")[2 * 5], 5.0F);
  EXPECT_EQ(ReadAll<std::uint16_t>(dataset, "depth")[15 * 5], 5000);
  EXPECT_EQ(ReadAll<std::uint8_t>(dataset, "rgb")[45 * 3], 3);
}

TEST(Collected, AKeyWithoutAnArrayIsTheOneOfItsNameAlsoInAResolvedConfig) {
  const TemporaryFolder folder;
  data::ReplayWriter writer(folder.path() / "a", kKeys, {{"env", "toy"}});
  writer.Append(Episode(0, 4));
  writer.Commit({}, true);
  const Config asked = Config::FromJson(R"({"path": ")" + (folder.path() / "a").string() +
                                        R"(", "keys": {"action": {}, "rgb": {}}})");
  ZarrReplayDataset::Create(asked);
  const auto again = ZarrReplayDataset::Create(Config::FromJson(asked.ToJson()));
  ASSERT_EQ(again->spec().keys.size(), 2U);
  EXPECT_EQ(again->spec().keys[1].type, KeyType::kRgb);
}

TEST(Collected, AnInterruptedCollectionHasTheEpisodesOfItsLastCommit) {
  const TemporaryFolder folder;
  data::ReplayWriter writer(folder.path() / "a", kKeys, {{"env", "toy"}});
  writer.Append(Episode(0, 4));
  writer.Commit({{"fps", 25.0}}, false);
  // the next commit got as far as the number of steps
  ZarrFiles files;
  files.AddArray<float>("data/action", {{7, 2}, {7, 2}}, Count<float>(14));
  files.WriteFolder(folder.path() / "a");
  EXPECT_EQ(ZarrReplayDataset({.path = folder.path() / "a"}).episode_ends().back(), 4);
}

TEST(Collected, AZipArchiveGivesTheSameKeys) {
  const TemporaryFolder folder;
  ZarrFiles files = SmallReplay();
  files.AddArray<std::uint16_t>("data/depth", {{10, 2, 2}, {4, 2, 2}}, Count<std::uint16_t>(40));
  files.AddArray<std::uint8_t>("data/rgb", {{10, 2, 2, 3}, {4, 2, 2, 3}}, Count<std::uint8_t>(120));
  files.WriteZip(folder.path() / "a.zip");
  files.WriteFolder(folder.path() / "a");
  const ZarrReplayDataset zip({.path = folder.path() / "a.zip"});
  const ZarrReplayDataset plain({.path = folder.path() / "a"});
  EXPECT_EQ(zip.spec().keys, plain.spec().keys);
  const auto type = [&zip](const char* key) {
    return zip.spec().keys[static_cast<std::size_t>(zip.KeyIndex(key))].type;
  };
  EXPECT_EQ(type("depth"), KeyType::kDepth);
  EXPECT_EQ(type("rgb"), KeyType::kRgb);
  EXPECT_EQ(type("img"), KeyType::kLowDim) << "floats: only the config can tell";
  EXPECT_EQ(zip.spec().fps, 0.0) << "it does not say its rate";
}

TEST(Collected, FpsOfTheConfigWins) {
  const TemporaryFolder folder;
  ZarrFiles files = SmallReplay();
  files[".zattrs"] = ToBytes(R"({"fps": 20})");
  files.WriteFolder(folder.path());
  EXPECT_EQ(ZarrReplayDataset({.path = folder.path()}).spec().fps, 20.0);
  EXPECT_EQ(ZarrReplayDataset({.path = folder.path(), .fps = 5.0}).spec().fps, 5.0);
}

TEST(Collected, BadAttributesAndMissingActionsAreNamed) {
  const auto load = [](std::string_view attributes, bool has_action = true) {
    const TemporaryFolder folder;
    ZarrFiles files = SmallReplay();
    files[".zattrs"] = ToBytes(attributes);
    if (!has_action) files.Erase("data/action/.zarray");
    files.WriteFolder(folder.path());
    return MessageOf(ErrorCode::kData, [&] { ZarrReplayDataset({.path = folder.path()}); });
  };
  EXPECT_THAT(load("[]"), HasSubstr(".zattrs: is not a JSON object"));
  EXPECT_THAT(load("{"), HasSubstr(".zattrs: is not JSON"));
  EXPECT_THAT(load(R"({"fps": "fast"})"), HasSubstr("fps is \"fast\""));
  EXPECT_THAT(load(R"({"fps": -1})"), HasSubstr("fps is -1"));
  EXPECT_THAT(load(R"({"complete": 1})"), HasSubstr("complete is neither"));
  EXPECT_THAT(load(std::string(100000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(load("{}", false), HasSubstr("holds no data/action"));
}

// Pictures as diffusion_policy stores them; read as numbers, each pixel would be a dimension.
TEST(KeysWithoutAConfig, Float32PicturesAreRgb) {
  const TemporaryFolder folder;
  const auto type_of = [&folder](std::int64_t width) {
    ZarrFiles files = SmallReplay();
    files.AddArray<float>("data/img", {{10, 16, width, 3}, {4, 16, width, 3}},
                          std::vector<float>(static_cast<std::size_t>(10 * 16 * width * 3), 7.0F));
    files.WriteFolder(folder.path() / std::to_string(width));
    const ZarrReplayDataset dataset({.path = folder.path() / std::to_string(width)});
    return dataset.spec().keys[static_cast<std::size_t>(dataset.KeyIndex("img"))].type;
  };
  EXPECT_EQ(type_of(16), KeyType::kRgb);
  EXPECT_EQ(type_of(4), KeyType::kLowDim);
}

}  // namespace
}  // namespace dp_bench::zarr_replay::testing
