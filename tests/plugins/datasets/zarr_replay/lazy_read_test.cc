// Images that are decoded when they are read: the same bytes and the same messages as for
// images that are loaded in advance.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "data/replay_writer.h"
#include "dp_bench/error.h"
#include "dp_bench/random.h"
#include "small_replay.h"
#include "support/error_of.h"

namespace dp_bench::zarr_replay::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kBytesPerMb = 1 << 20;

// Reads short random ranges of all keys.
void ExpectSameReads(const Dataset& dataset, const Dataset& wanted, std::uint64_t seed) {
  ASSERT_EQ(dataset.spec().keys, wanted.spec().keys);
  RandomStream random(seed, StreamId::kAugment);
  const std::int64_t n_steps = wanted.episode_ends().back();
  for (int i = 0; i < 50; ++i) {
    const auto key = random.UniformInt(static_cast<std::uint32_t>(wanted.spec().keys.size()));
    const std::int64_t begin = random.UniformInt(static_cast<std::uint32_t>(n_steps));
    const std::int64_t end = std::min<std::int64_t>(n_steps, begin + random.UniformInt(4));
    const std::string& name = wanted.spec().keys[key].name;
    ASSERT_EQ(ReadSteps(dataset, name, begin, end), ReadSteps(wanted, name, begin, end))
        << name << " " << begin << " to " << end;
  }
}

// Small images share a chunk of 1 MiB, each large one has its own.
void Collect(const std::filesystem::path& folder, std::int64_t n_steps) {
  const std::vector<KeySpec> keys = {
      {.name = "action", .shape = {2}},
      {.name = "depth", .type = KeyType::kDepth, .shape = {1, 96, 128}, .dtype = DType::kUInt16},
      {.name = "rgb", .type = KeyType::kRgb, .shape = {3, 480, 640}, .dtype = DType::kUInt8}};
  data::ReplayEpisode episode(keys);
  for (std::int64_t step = 0; step < n_steps; ++step) {
    const std::vector<float> action(2, static_cast<float>(step));
    std::vector<std::uint16_t> depth = Count<std::uint16_t>(96 * 128);
    std::vector<std::uint8_t> pixels = Count<std::uint8_t>(480 * 640 * 3);
    depth[0] = static_cast<std::uint16_t>(1000 + step);
    pixels[0] = static_cast<std::uint8_t>(100 + step);
    const std::vector<std::span<const std::byte>> values = {std::as_bytes(std::span(action)),
                                                            std::as_bytes(std::span(depth)),
                                                            std::as_bytes(std::span(pixels))};
    episode.Append(values);
  }
  data::ReplayWriter writer(folder, keys, {{"env", "toy"}});
  writer.Append(episode);
  writer.Commit({{"fps", 25.0}}, true);
}

TEST(LazyRead, ACollectedDataSetReadsAsItIsLoaded) {
  const TemporaryFolder folder;
  Collect(folder.path() / "a", 50);
  const ZarrReplayDataset loaded({.path = folder.path() / "a"});
  const ZarrReplayDataset lazy({.path = folder.path() / "a", .memory_limit_mb = 3});
  std::vector<std::jthread> threads;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    threads.emplace_back([&, seed] { ExpectSameReads(lazy, loaded, seed); });
  }
}

// Ten steps, one per chunk, in 480 bytes.
constexpr double kImageMb = 480 / kBytesPerMb;

ZarrFiles OneStepPerChunk() {
  ZarrFiles files = SmallReplay();
  files.AddArray<std::uint8_t>("data/img", {{10, 4, 4, 3}, {1, 4, 4, 3}, Zlib()},
                               Count<std::uint8_t>(480));
  return files;
}

TEST(LazyRead, AZipArchiveReadsAsItIsLoaded) {
  for (const bool deflate : {false, true}) {
    const TemporaryFolder folder;
    OneStepPerChunk().WriteZip(folder.path() / "a.zip", deflate);
    ZarrReplayConfig config = SmallConfig(folder.path() / "a.zip");
    const ZarrReplayDataset loaded(config);
    config.memory_limit_mb = kImageMb / 4;
    ExpectSameReads(ZarrReplayDataset(config), loaded, 1);
  }
}

TEST(LazyRead, ChannelsFirstAndFillValuesAsTheyAreLoaded) {
  const TemporaryFolder folder;
  ZarrFiles files = SmallReplay();
  for (const char* chunk : {"0", "1", "2"})
    files.Erase(std::string("data/img/") + chunk + ".0.0.0");
  std::vector<std::uint8_t> pixels = Count<std::uint8_t>(10 * 3 * 20);
  std::fill(pixels.begin() + 120, pixels.begin() + 300, std::uint8_t{9});
  ArrayLayout layout{.shape = {10, 3, 4, 5}, .chunks = {1, 3, 4, 5}};
  layout.left_out = layout.fill_value = 9;
  files.AddArray<std::uint8_t>("data/img", layout, pixels);
  files.WriteFolder(folder.path());
  ZarrReplayConfig config = SmallConfig(folder.path());
  const ZarrReplayDataset loaded(config);
  const Bytes all = ReadAll(loaded, "image");
  for (std::size_t step = 0; step < 10; ++step) {
    for (std::size_t i = 0; i < 60; ++i) {
      ASSERT_EQ(all[60 * step + i], std::byte{pixels[60 * step + i % 3 * 20 + i / 3]});
    }
  }
  config.memory_limit_mb = 300 / kBytesPerMb;
  ExpectSameReads(ZarrReplayDataset(config), loaded, 1);
}

// The error of opening the dataset and reading all of its images; empty if both succeed.
std::string MessageOfReading(const ZarrFiles& files, double memory_limit_mb, bool* is_open) {
  static const TemporaryFolder folder;  // one path, so that messages can be compared
  files.WriteFolder(folder.path() / "a");
  ZarrReplayConfig config = SmallConfig(folder.path() / "a");
  config.memory_limit_mb = memory_limit_mb;
  *is_open = false;
  try {
    const ZarrReplayDataset dataset(config);
    *is_open = true;
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(CodeOf([&] { ReadAll<std::uint8_t>(dataset, "image"); }), ErrorCode::kData)
          << "also when it is asked again";
    }
    ReadAll<std::uint8_t>(dataset, "image");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kData);
    return error.what();
  }
  return "";
}

// The fault is found at opening if images are loaded in advance, else when they are read.
void ExpectFoundWhenRead(const ZarrFiles& files, std::string_view wanted) {
  bool is_open = false;
  const std::string loading = MessageOfReading(files, kImageMb, &is_open);
  EXPECT_FALSE(is_open) << "as large as the limit: loaded";
  EXPECT_THAT(loading, HasSubstr(wanted));
  EXPECT_EQ(MessageOfReading(files, kImageMb / 2, &is_open), loading);
  EXPECT_TRUE(is_open);
}

TEST(LazyRead, ADamagedChunkIsFoundWhenItIsRead) {
  ZarrFiles files = OneStepPerChunk();
  Bytes& chunk = files["data/img/7.0.0.0"];
  chunk.resize(chunk.size() / 2);
  ExpectFoundWhenRead(files, "data/img/7.0.0.0: zlib stops at byte");
}

TEST(LazyRead, AValueThatIsNoPixelIsFoundWhenItIsRead) {
  std::vector<float> pixels(480, 7.0F);
  pixels[7 * 48 + 3] = 0.5F;
  ZarrFiles files = OneStepPerChunk();
  files.AddArray<float>("data/img", {{10, 4, 4, 3}, {1, 4, 4, 3}, Zlib()}, pixels);
  ExpectFoundWhenRead(files, "data/img holds 0.5 at step 7; an image of type rgb holds");
}

TEST(LazyRead, OtherStepsOfADamagedArrayAreRead) {
  const TemporaryFolder folder;
  ZarrFiles files = OneStepPerChunk();
  files["data/img/7.0.0.0"].resize(20);
  files.WriteFolder(folder.path());
  ZarrReplayConfig config = SmallConfig(folder.path());
  config.memory_limit_mb = kImageMb / 2;
  const ZarrReplayDataset dataset(config);
  EXPECT_EQ(ReadSteps(dataset, "image", 8, 10)[0], static_cast<std::byte>(8 * 48 % 256));
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { ReadSteps(dataset, "image", 6, 8); }),
              HasSubstr("data/img/7.0.0.0: "));
}

// The error of opening a dataset whose images exceed the limit.
std::string OpenLazy(const ZarrFiles& files, ErrorCode code, double memory_limit_mb) {
  const TemporaryFolder folder;
  files.WriteFolder(folder.path());
  ZarrReplayConfig config = SmallConfig(folder.path());
  config.memory_limit_mb = memory_limit_mb;
  return MessageOf(code, [&] { ZarrReplayDataset{config}; });
}

TEST(LazyRead, HeadersAndTypesAreCheckedAtOpening) {
  ZarrFiles missing = OneStepPerChunk();
  missing.Replace("data/img/.zarray", R"("fill_value":0)", R"("fill_value":null)");
  missing.Erase("data/img/7.0.0.0");
  EXPECT_THAT(OpenLazy(missing, ErrorCode::kData, kImageMb / 2), HasSubstr("img/7.0.0.0 does not"));

  ZarrFiles not_blosc = OneStepPerChunk();
  not_blosc.AddArray<std::uint8_t>("data/img", {{10, 4, 4, 3}, {1, 4, 4, 3}, Blosc("lz4", 1)},
                                   Count<std::uint8_t>(480));
  not_blosc["data/img/7.0.0.0"].pop_back();
  EXPECT_THAT(OpenLazy(not_blosc, ErrorCode::kData, kImageMb / 2), HasSubstr("7.0.0.0: byte 12"));

  ZarrFiles integers = OneStepPerChunk();
  integers.AddArray<std::int32_t>("data/img", {{10, 4, 4, 3}, {1, 4, 4, 3}},
                                  Count<std::int32_t>(480));
  EXPECT_THAT(OpenLazy(integers, ErrorCode::kData, kImageMb / 2),
              HasSubstr("data/img has dtype int32; images are uint8 or float32"));
}

TEST(LazyRead, ALimitBelowOneChunkSaysWhatIsNeeded) {
  EXPECT_THAT(OpenLazy(OneStepPerChunk(), ErrorCode::kConfig, 47 / kBytesPerMb),
              AllOf(HasSubstr("dataset.params.memory_limit_mb is "), HasSubstr("data/img"),
                    HasSubstr("chunks of 48 bytes"), HasSubstr("expected 1 or more")));
}

// The first 16 MiB of the numbers are free, and the rest of them takes 1.2 MiB.
TEST(LazyRead, WhatIsNeededIsRoomForTheNumbersAndAChunk) {
  const TemporaryFolder folder;
  ZarrFiles files = SmallReplay();
  files.AddArray<float>("data/state", {{10, 450'000}, {1, 45'000}}, Count<float>(4'500'000));
  files.AddArray<std::uint8_t>("data/img", {{10, 256, 256, 3}, {10, 256, 256, 3}},
                               Count<std::uint8_t>(1'966'080));
  files.WriteFolder(folder.path());
  ZarrReplayConfig config = SmallConfig(folder.path());
  config.memory_limit_mb = 2;
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { ZarrReplayDataset{config}; }),
              AllOf(HasSubstr("chunks of 1966080 bytes"), HasSubstr("expected 4 or more")));
  config.memory_limit_mb = 4;
  const ZarrReplayDataset enough(config);
}

TEST(LazyRead, ALimitBeyondThisMachineIsRefused) {
  const std::int64_t memory = ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE);
  const std::int64_t n_steps = memory / 1'800'000'000 + 2;
  ZarrFiles files = SmallReplay();
  files.AddArray<float>("data/action", {{n_steps, 1}, {n_steps, 1}}, Count<float>(n_steps));
  files.AddArray<float>("data/state", {{n_steps, 5}, {n_steps, 5}}, Count<float>(5 * n_steps));
  files.AddArray<std::int64_t>("meta/episode_ends", {{1}, {1}}, {n_steps});
  // headers of images larger than the memory of the machine
  files.AddArray<std::uint8_t>("data/img", {{n_steps, 1, 1, 3}, {1, 1, 1, 3}, Zstd(false)},
                               Count<std::uint8_t>(3 * n_steps));
  for (std::int64_t step = 0; step < n_steps; ++step) {
    files["data/img/" + std::to_string(step) + ".0.0.0"].resize(30'000);
  }
  files.Replace("data/img/.zarray", "1,1,3]", "20000,30000,3]");
  EXPECT_THAT(OpenLazy(files, ErrorCode::kConfig, static_cast<double>(memory) / kBytesPerMb + 1),
              AllOf(HasSubstr("dataset.params.memory_limit_mb is "),
                    HasSubstr("; this machine or its container has ")));
}

TEST(LazyRead, TheLimitIsAParamWithinARange) {
  const auto read = [](const std::string& limit) {
    return ZarrReplayConfig::FromConfig(
        Config::FromJson(R"({"path": "x.zarr", "memory_limit_mb": )" + limit +
                         R"(, "keys": {"action": {"array": "data/action"}}})"));
  };
  EXPECT_EQ(read("64").memory_limit_mb, 64.0);
  for (const char* limit : {"0", "-1", "1e8", "\"64\""}) {
    EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { read(limit); }), HasSubstr("memory_limit_mb"));
  }
}

}  // namespace
}  // namespace dp_bench::zarr_replay::testing
