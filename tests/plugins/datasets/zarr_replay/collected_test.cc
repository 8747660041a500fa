// Datasets of the harness's own writer, read without a map of keys.
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

// A map of numbers in the shape of images, and images too small to be guessed.
TEST(Collected, EveryKeyIsOfTheTypeThatWasCollected) {
  const std::vector<KeySpec> keys = {
      {.name = "action", .shape = {2}},
      {.name = "depth", .type = KeyType::kDepth, .shape = {1, 2, 2}, .dtype = DType::kUInt16},
      {.name = "xyz", .shape = {16, 16, 3}}};
  const std::vector<float> map(16 * 16 * 3, 9.0F);
  const std::vector<std::uint16_t> depth(4, 700);
  data::ReplayEpisode episode(keys);
  const std::vector<std::span<const std::byte>> values = {std::as_bytes(std::span(map).first(2)),
                                                          std::as_bytes(std::span(depth)),
                                                          std::as_bytes(std::span(map))};
  episode.Append(values);
  const TemporaryFolder folder;
  data::ReplayWriter writer(folder.path() / "a", keys, {{"env", "toy"}});
  writer.Append(episode);
  writer.Commit({{"fps", 25.0}}, true);
  const ZarrReplayDataset dataset({.path = folder.path() / "a"});
  EXPECT_EQ(dataset.spec().keys, keys);
  EXPECT_EQ(ReadAll<float>(dataset, "xyz"), map);
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
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(ZarrReplayDataset({.path = folder.path() / "a"}).episode_ends().back(), 4);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("is not complete, because what writes it still runs or was interrupted; it "
                        "has 1 episodes so far"));
}

TEST(Collected, TasksAreThoseOfTheEpisodesIfThereIsATextForEach) {
  const auto tasks_of = [](const std::string& attributes) {
    const TemporaryFolder folder;
    ZarrFiles files = SmallReplay();
    files[".zattrs"] = ToBytes(attributes);
    files.WriteFolder(folder.path());
    const ZarrReplayDataset dataset({.path = folder.path()});
    std::vector<std::string> tasks;
    for (int i = 0; i < std::ssize(dataset.episode_ends()); ++i) tasks.push_back(dataset.Task(i));
    return tasks;
  };
  EXPECT_THAT(tasks_of(R"({"fps": 5, "tasks": ["push", "", "grasp"], "x": {"tasks": ["a"]}})"),
              ElementsAre("push", "", "grasp"));
  for (const char* const other :
       {R"({})", R"({"tasks": ["push"]})", R"({"tasks": [1, 2, 3]})", R"({"tasks": "push"})",
        R"({"tasks": [["a", "b", "c"]]})", R"({"x": {"tasks": ["a", "b", "c"]}})"}) {
    EXPECT_THAT(tasks_of(other), ElementsAre("", "", "")) << other;
  }
}

TEST(Collected, AZipArchiveGivesTheSameKeys) {
  const TemporaryFolder folder;
  ZarrFiles files = SmallReplay();
  files.AddArray<std::uint16_t>("data/depth", {{10, 16, 16}, {4, 16, 16}},
                                Count<std::uint16_t>(2560));
  files.AddArray<std::uint8_t>("data/rgb", {{10, 2, 2, 3}, {4, 2, 2, 3}}, Count<std::uint8_t>(120));
  files.WriteZip(folder.path() / "a.zip");
  files.WriteFolder(folder.path() / "a");
  const ZarrReplayDataset zip({.path = folder.path() / "a.zip"});
  const ZarrReplayDataset plain({.path = folder.path() / "a"});
  EXPECT_EQ(zip.spec().keys, plain.spec().keys);
  EXPECT_EQ(SpecOf(zip, "depth").type, KeyType::kDepth);
  EXPECT_EQ(SpecOf(zip, "rgb").type, KeyType::kRgb);
  EXPECT_EQ(SpecOf(zip, "img").type, KeyType::kLowDim) << "floats: only the config can tell";
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

// SmallReplay with an array of 10 steps.
template <class T>
KeySpec KeyOf(Shape shape, const std::vector<T>& values, const ZarrReplayConfig& config = {}) {
  const TemporaryFolder folder;
  ZarrFiles files = SmallReplay();
  Shape chunks = shape;
  chunks[0] = 4;
  files.AddArray<T>("data/extra", {shape, chunks}, values);
  files.WriteFolder(folder.path());
  ZarrReplayConfig here = config;
  here.path = folder.path();
  return SpecOf(ZarrReplayDataset(here), "extra");
}

template <class T>
KeySpec KeyOf(const Shape& shape, double value = 7.0) {
  return KeyOf<T>(
      shape, std::vector<T>(static_cast<std::size_t>(NumElements(shape)), static_cast<T>(value)));
}

// Images as diffusion_policy stores them; read as numbers, each pixel would be a dimension.
TEST(KeysWithoutAConfig, WholeFloat32ImagesAreRgb) {
  EXPECT_EQ(KeyOf<float>({10, 16, 16, 3}).type, KeyType::kRgb);
  EXPECT_EQ(KeyOf<float>({10, 16, 4, 3}).type, KeyType::kLowDim);
  EXPECT_EQ(KeyOf<float>({10, 16, 16, 3}, 0.5).type, KeyType::kLowDim) << "no bytes";
}

TEST(KeysWithoutAConfig, ChannelsMayComeFirst) {
  EXPECT_EQ(KeyOf<std::uint8_t>({10, 3, 16, 24}).shape, (Shape{3, 16, 24}));
  EXPECT_EQ(KeyOf<std::uint8_t>({10, 3, 16, 24}).type, KeyType::kRgb);
  EXPECT_EQ(KeyOf<float>({10, 3, 16, 24}).type, KeyType::kRgb);
  EXPECT_EQ(KeyOf<std::uint16_t>({10, 1, 16, 24}).shape, (Shape{1, 16, 24}));
  EXPECT_EQ(KeyOf<std::uint8_t>({10, 3, 4, 4}).type, KeyType::kLowDim) << "too small for a guess";
}

TEST(KeysWithoutAConfig, DepthIsGuessedOnlyFromImagesOfUInt16) {
  EXPECT_EQ(KeyOf<std::uint16_t>({10, 16, 16}).type, KeyType::kDepth);
  EXPECT_EQ(KeyOf<std::uint16_t>({10, 16, 16, 1}).type, KeyType::kDepth);
  EXPECT_EQ(KeyOf<std::uint16_t>({10, 6}).type, KeyType::kLowDim);
  EXPECT_EQ(KeyOf<std::uint16_t>({10, 4, 4}).type, KeyType::kLowDim);
  EXPECT_EQ(KeyOf<float>({10, 16, 16}).type, KeyType::kLowDim);
  EXPECT_EQ(KeyOf<std::uint8_t>({10, 16, 16, 1}).type, KeyType::kLowDim);
}

TEST(KeysWithoutAConfig, DepthInMetresNeedsTheConfig) {
  const KeySpec key =
      KeyOf<float>({10, 2, 3}, std::vector<float>(60, 0.5F),
                   {.keys = {{"action", {.source = "data/action"}},
                             {"extra", {.source = "data/extra", .type = KeyType::kDepth}}}});
  EXPECT_EQ(key.type, KeyType::kDepth);
  EXPECT_EQ(key.dtype, DType::kFloat32);
  EXPECT_EQ(key.shape, (Shape{1, 2, 3}));
}

TEST(KeysWithoutAConfig, AKeyWithoutAnArrayIsThatOfItsName) {
  const Config params = Config::FromJson(R"({"path": "x", "keys": {"action": {}, "img": {}}})");
  const ZarrReplayConfig config = ZarrReplayConfig::FromConfig(params);
  EXPECT_EQ(config.keys.at("img").source, "");
  EXPECT_EQ(config.keys.at("img").type, std::nullopt);
}

std::string WarningOf(const std::function<void(ZarrFiles*)>& change) {
  const TemporaryFolder folder;
  ZarrFiles files = SmallReplay();
  change(&files);
  files.WriteFolder(folder.path());
  ::testing::internal::CaptureStderr();
  const ZarrReplayDataset dataset({.path = folder.path()});
  EXPECT_EQ(dataset.spec().keys.size(), 3U) << "action, img, state";
  return ::testing::internal::GetCapturedStderr();
}

TEST(KeysWithoutAConfig, WhatIsLeftOutIsSaid) {
  EXPECT_EQ(WarningOf([](ZarrFiles*) {}), "");
  const auto with_array = [](const char* name, std::string_view from, std::string_view to) {
    return WarningOf([&](ZarrFiles* files) {
      files->AddArray<float>(name, {{10, 1}, {10, 1}}, Count<float>(10));
      files->Replace(std::string(name) + "/.zarray", from, to);
    });
  };
  EXPECT_THAT(with_array("data/text", "<f4", "<U4"),
              HasSubstr("left out: data/text (dtype is \"<U4\"; dp_bench reads numbers"));
  EXPECT_THAT(with_array("data/few", "[10,1],\"zarr", "[2,1],\"zarr"),
              HasSubstr("data/few (shape [2, 1]; the episodes end at step 10)"));
  EXPECT_THAT(with_array("data/none", "[10,1],\"zarr", "[10,0],\"zarr"),
              HasSubstr("data/none (shape [10, 0]; its steps are empty)"));
  EXPECT_THAT(with_array("data/one", "[10,1],\"zarr", "[],\"zarr"),
              HasSubstr("data/one (shape is [], a single value"));
  EXPECT_THAT(with_array("data/obs/pos", "<f4", "<f4"),
              HasSubstr("data/obs (no array; those below it are read if"));
  EXPECT_THAT(with_array("meta/lengths", "<f4", "<f4"), HasSubstr("left out: meta/lengths"));
  EXPECT_THAT(with_array("labels", "<f4", "<f4"), HasSubstr("left out: labels"));
}

TEST(KeysWithoutAConfig, MissingChunksAreCounted) {
  const auto without = [](const char* chunk) {
    return WarningOf([chunk](ZarrFiles* files) { files->Erase(chunk); });
  };
  EXPECT_THAT(
      without("data/action/1.0"),
      ::testing::AllOf(HasSubstr("[warning]"), HasSubstr("data/action: 1 of 3 chunks are")));
  EXPECT_THAT(without("data/state/1.0"),
              ::testing::AllOf(HasSubstr("[info]"), HasSubstr("data/state: 1 of 3 chunks are")));
  EXPECT_THAT(WarningOf([](ZarrFiles* files) {
                files->Erase("data/state/1.0");
                (*files)["data/state/.zattrs"] = ToBytes(R"({"dp_bench_type": "low_dim"})");
              }),
              HasSubstr("[warning]"))
      << "dp_bench stores every chunk";
}

TEST(KeysWithoutAConfig, Version3HoldsTheSameKeysAndItsRate) {
  ArrayLayout layout{.shape = {10, 2}, .chunks = {4, 2}, .encoding = Zstd()};
  layout.is_version_3 = true;
  ZarrFiles files;
  files.AddArray<float>("data/action", layout, Count<float>(20));
  files.AddArray<std::int64_t>("meta/episode_ends",
                               {.shape = {3}, .chunks = {3}, .is_version_3 = true}, {4, 9, 10});
  files["data/obs/zarr.json"] = ToBytes(R"({"zarr_format": 3, "node_type": "group"})");
  files["zarr.json"] = ToBytes(R"({"attributes": {"fps": 25, "x": {"fps": 1}, "tasks":
      ["push", "push", "grasp"]}, "fps": 2, "tasks": ["a"], "consolidated_metadata": {"fps": 3,
      "tasks": ["b"]}, "zarr_format": 3, "node_type": "group"})");
  const TemporaryFolder folder;
  files.WriteFolder(folder.path() / "a");
  files.WriteZip(folder.path() / "a.zip");
  for (const char* name : {"a", "a.zip"}) {
    const ZarrReplayDataset dataset({.path = folder.path() / name});
    EXPECT_EQ(ReadAll<float>(dataset, "action"), Count<float>(20));
    EXPECT_EQ(dataset.spec().fps, 25.0);
    EXPECT_EQ(dataset.Task(2), "grasp");
    EXPECT_EQ(dataset.spec().keys.size(), 1U);
  }
}

}  // namespace
}  // namespace dp_bench::zarr_replay::testing
