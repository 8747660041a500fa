// HDF5 files that are written: what is read back, what a kill leaves, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/temporary_folder.h"
#include "data/hdf5/writer.h"
#include "dp_bench/random.h"
#include "small_hdf5.h"
#include "support/error_of.h"

namespace dp_bench::hdf5::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kLengths[] = {3, 1, 6};

// A list of the size of an image must stay a list.
DatasetSpec SpecToWrite() {
  return {
      .keys =
          {{.name = "action", .shape = {2}},
           {.name = "depth", .type = KeyType::kDepth, .shape = {1, 5, 7}, .dtype = DType::kUInt16},
           {.name = "grid", .shape = {17, 18, 3}},
           {.name = "metres", .type = KeyType::kDepth, .shape = {1, 5, 7}},
           {.name = "rewards", .shape = {1}},
           {.name = "rgb", .type = KeyType::kRgb, .shape = {3, 5, 7}, .dtype = DType::kUInt8}},
      .fps = 12.5};
}

std::vector<std::byte> ValueOf(const KeySpec& key, int step) {
  RandomStream random(static_cast<std::uint64_t>(step), StreamId::kAugment, key.name.size());
  std::vector<std::byte> bytes(key.ByteSize());
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.NextU32() & 0x3fU);
  return bytes;
}

// Writes episodes that are missing, up to `n`.
void WriteEpisodes(DatasetWriter& writer, std::int64_t n) {
  const DatasetSpec spec = SpecToWrite();
  int step = 0;
  for (std::int64_t episode = 0; episode < n; ++episode) {
    const int length = kLengths[episode];
    if (episode >= writer.n_episodes()) {
      writer.BeginEpisode({.n_steps = length, .task = "lift"});
      for (int i = 0; i < length; ++i) {
        std::vector<std::vector<std::byte>> values;
        for (const KeySpec& key : spec.keys) values.push_back(ValueOf(key, step + i));
        writer.Append(std::vector<std::span<const std::byte>>(values.begin(), values.end()));
      }
    }
    step += length;
  }
}

void ExpectEverySteps(const fs::path& path) {
  const Hdf5Dataset dataset({.path = path});
  const DatasetSpec spec = SpecToWrite();
  ASSERT_EQ(dataset.spec().keys, spec.keys);
  EXPECT_EQ(dataset.spec().fps, spec.fps);
  EXPECT_THAT(dataset.episode_ends(), ElementsAre(3, 4, 10));
  for (std::size_t key = 0; key < spec.keys.size(); ++key) {
    for (int step = 0; step < 10; ++step) {
      std::vector<std::byte> value(spec.keys[key].ByteSize());
      dataset.Read(static_cast<int>(key), step, step + 1, value);
      EXPECT_EQ(value, ValueOf(spec.keys[key], step)) << spec.keys[key].name << " " << step;
    }
  }
}

struct Variant {
  bool is_act;
  int gzip;
};

class Hdf5Variants : public ::testing::TestWithParam<Variant> {
 protected:
  Hdf5WriterConfig config() const {
    return {.path = folder_.path() / "out.hdf5",
            .source = "a test",
            .is_act = GetParam().is_act,
            .gzip = GetParam().gzip,
            .names = {}};
  }

  core::TemporaryFolder folder_;
};

TEST_P(Hdf5Variants, AreReadBackBitForBit) {
  {
    Hdf5Writer writer(config(), SpecToWrite());
    WriteEpisodes(writer, 3);
    writer.Finish();
  }
  ExpectEverySteps(config().path);
  EXPECT_FALSE(fs::exists(config().path.string() + ".unfinished"));
}

TEST_P(Hdf5Variants, AreContinuedAfterAKillInAnEpisode) {
  for (const std::int64_t n : {1, 2}) {
    Hdf5Writer writer(config(), SpecToWrite());
    EXPECT_EQ(writer.n_episodes(), n - 1);
    WriteEpisodes(writer, n);
    writer.BeginEpisode({.n_steps = 5, .task = ""});
  }
  EXPECT_FALSE(fs::exists(config().path));
  Hdf5Writer writer(config(), SpecToWrite());
  EXPECT_EQ(writer.n_episodes(), 2);
  WriteEpisodes(writer, 3);
  writer.Finish();
  ExpectEverySteps(config().path);
}

TEST_P(Hdf5Variants, AreNotWrittenOverOtherData) {
  {
    Hdf5Writer writer(config(), SpecToWrite());
    WriteEpisodes(writer, 1);
  }
  Hdf5WriterConfig other = config();
  other.source = "another";
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { const Hdf5Writer writer(other, SpecToWrite()); }),
              HasSubstr("unfinished dataset of another source"));
  std::ofstream(config().path) << "mine";
  EXPECT_THAT(
      MessageOf(ErrorCode::kUsage, [&] { const Hdf5Writer writer(config(), SpecToWrite()); }),
      HasSubstr("exists"));
}

INSTANTIATE_TEST_SUITE_P(All, Hdf5Variants,
                         ::testing::Values(Variant{false, 0}, Variant{false, 4}, Variant{true, 0},
                                           Variant{true, 4}));

TEST(Hdf5WriterPath, IsNeededBeforeAnythingIsWritten) {
  const Hdf5WriterConfig config{.path = "", .source = "a test", .names = {}};
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { const Hdf5Writer writer(config, SpecToWrite()); }),
              HasSubstr("the path of the dataset to write is empty"));
  EXPECT_FALSE(fs::exists(".unfinished"));
}

TEST(Hdf5WriterNames, RenameKeysAndAreChecked) {
  const core::TemporaryFolder folder;
  const DatasetSpec spec = {
      .keys = {{.name = "a/b", .shape = {1}}, {.name = "action", .shape = {1}}}, .fps = 10.0};
  Hdf5WriterConfig config{.path = folder.path() / "out", .source = "a test", .names = {}};
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { const Hdf5Writer writer(config, spec); }),
              HasSubstr("has no '/'"));
  config.names = {{"a/b", "qpos"}, {"c", "d"}};
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { const Hdf5Writer writer(config, spec); }),
              HasSubstr("there is no key 'c'"));
  EXPECT_FALSE(fs::exists(folder.path() / "out.unfinished"));
  config.names.erase("c");
  const Hdf5Writer writer(config, spec);
  EXPECT_TRUE(fs::exists(folder.path() / "out.unfinished"));
}

TEST_P(Hdf5Variants, KeepsTheNamesOfChannels) {
  Hdf5WriterConfig named = config();
  const DatasetSpec spec = SpecToWrite();
  const KeySpec& key = spec.keys[0];
  for (std::int64_t i = 0; i < key.NumElements(); ++i) {
    named.channels[key.name].push_back("channel " + std::to_string(i));
  }
  Hdf5Writer writer(named, SpecToWrite());
  WriteEpisodes(writer, 3);
  writer.Finish();
  const Hdf5Dataset dataset({.path = named.path});
  EXPECT_EQ(dataset.ChannelNames(0), named.channels[key.name]);
  EXPECT_TRUE(dataset.ChannelNames(1).empty());
}

}  // namespace
}  // namespace dp_bench::hdf5::testing
