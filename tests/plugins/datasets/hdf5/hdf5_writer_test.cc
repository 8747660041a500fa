// HDF5 files that are written: what is read back, what a kill leaves, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/temporary_folder.h"
#include "data/hdf5/writer.h"
#include "small_hdf5.h"
#include "support/error_of.h"
#include "support/three_episodes.h"

namespace dp_bench::hdf5::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

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
    AppendEpisodes(writer, SpecToWrite());
    writer.Finish();
  }
  ExpectThreeEpisodes(Hdf5Dataset({.path = config().path}), SpecToWrite());
  EXPECT_FALSE(fs::exists(config().path.string() + ".unfinished"));
}

TEST_P(Hdf5Variants, AreContinuedAfterAKillInAnEpisode) {
  for (const std::int64_t n : {1, 2}) {
    Hdf5Writer writer(config(), SpecToWrite());
    EXPECT_EQ(writer.n_episodes(), n - 1);
    AppendEpisodes(writer, SpecToWrite(), n);
    writer.BeginEpisode({.n_steps = 5, .task = ""});
  }
  EXPECT_FALSE(fs::exists(config().path));
  Hdf5Writer writer(config(), SpecToWrite());
  EXPECT_EQ(writer.n_episodes(), 2);
  AppendEpisodes(writer, SpecToWrite());
  writer.Finish();
  ExpectThreeEpisodes(Hdf5Dataset({.path = config().path}), SpecToWrite());
}

TEST_P(Hdf5Variants, AreNotWrittenOverOtherData) {
  {
    Hdf5Writer writer(config(), SpecToWrite());
    AppendEpisodes(writer, SpecToWrite(), 1);
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
  AppendEpisodes(writer, SpecToWrite());
  writer.Finish();
  const Hdf5Dataset dataset({.path = named.path});
  EXPECT_EQ(dataset.ChannelNames(0), named.channels[key.name]);
  EXPECT_TRUE(dataset.ChannelNames(1).empty());
}

}  // namespace
}  // namespace dp_bench::hdf5::testing
