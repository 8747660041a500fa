// What is checked before a dataset is copied: numbers, rates and keys.
#include "task/dataset_conversion.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "data/replay_writer.h"
#include "dp_bench/error.h"
#include "plugin/catalogue.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::task {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class DatasetConversionTest : public testing::Test {
 protected:
  // Two episodes of three steps. The second number of `state` at step 4 is `odd`.
  fs::path Write(const std::string& name, double fps, float odd = 1.0F,
                 const data::ChannelsByKey& channels = {}, const nlohmann::json& episodes = {}) {
    const fs::path path = scratch_.path() / name;
    data::ReplayDatasetWriter writer(
        path, "test",
        {.keys = {{.name = "action", .shape = {1}}, {.name = "state", .shape = {2}}}, .fps = fps},
        channels, episodes);
    for (int step = 0; step < 6; ++step) {
      if (step % 3 == 0) writer.BeginEpisode({.n_steps = 3, .task = ""});
      const std::vector<float> action = {static_cast<float>(step)};
      const std::vector<float> state = {0.0F, step == 4 ? odd : 1.0F};
      const std::vector<std::span<const std::byte>> values = {std::as_bytes(std::span(action)),
                                                              std::as_bytes(std::span(state))};
      writer.Append(values);
    }
    writer.Finish();
    return path;
  }

  // Returns the notes.
  std::vector<std::string> Convert(const DatasetConversion& request) {
    return ConvertDatasets(std::span(&request, 1), catalogue_, [](const ConversionProgress&) {})
        .outputs[0]
        .notes;
  }

  // Stops after the first episode that it copies.
  ConversionReport ConvertOneEpisode(DatasetConversion request) {
    std::atomic<bool> stop = false;
    request.stop = &stop;
    return ConvertDatasets(std::span(&request, 1), catalogue_,
                           [&stop](const ConversionProgress&) { stop = true; });
  }

  double RateIn(const fs::path& path) { return OpenDataset(path, {}, catalogue_)->spec().fps; }

  std::vector<std::string> KeysIn(const fs::path& path, const std::string& asked) {
    std::vector<std::string> names;
    const auto dataset = OpenDataset(path, {.keys = asked}, catalogue_);
    for (const KeySpec& key : dataset->spec().keys) {
      names.push_back(fmt::format("{} {}", key.name, ToString(key.shape)));
    }
    return names;
  }

  const ScratchFolder scratch_;
  const fs::path output_ = scratch_.path() / "out.zarr";
  plugin::PluginCatalogue catalogue_{{DPB_PLUGIN_DIR}};
};

TEST_F(DatasetConversionTest, NumbersThatAreNotFiniteAreNamedAndNothingIsWritten) {
  for (const float odd : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const fs::path source = Write(fmt::format("{}.zarr", odd), 10.0, odd);
    for (const char* format : {"zarr", "lerobot"}) {
      EXPECT_THAT(
          MessageOf(ErrorCode::kNumeric,
                    [&] { Convert({.sources = {source}, .output = output_, .format = format}); }),
          AllOf(HasSubstr(fmt::format("'state' holds {} at step 4, element 1 (step 1 of "
                                      "episode 1)",
                                      odd)),
                HasSubstr(source.string())));
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path()), {}), 1) << "only the source";
    fs::remove_all(source);
  }
}

TEST_F(DatasetConversionTest, ADatasetWithoutEpisodesIsRefused) {
  plugin::PluginCatalogue readers({fs::path(DPB_BROKEN_PLUGIN_DIR) / "mistaken"});
  EXPECT_THAT(
      MessageOf(ErrorCode::kData, [&] { OpenDataset("no_episodes.mistaken", {}, readers); }),
      HasSubstr("'no_episodes.mistaken' holds no episode"));
}

TEST_F(DatasetConversionTest, TheFirstOfTwoOutputsIsNotBegunIfTheSecondIsRefused) {
  const fs::path source = Write("source.zarr", 10.0, std::nanf(""));
  const std::vector<DatasetConversion> both = {
      {.sources = {source}, .output = output_, .format = "zarr", .episodes = {{0}}},
      {.sources = {source}, .output = scratch_.path() / "b", .format = "zarr", .episodes = {{1}}}};
  MessageOf(ErrorCode::kNumeric,
            [&] { ConvertDatasets(both, catalogue_, [](const ConversionProgress&) {}); });
  EXPECT_FALSE(fs::exists(output_));
}

TEST_F(DatasetConversionTest, OnlyStepsThatAreCopiedNeedToBeFinite) {
  const fs::path source = Write("source.zarr", 10.0, std::nanf(""));
  Convert({.sources = {source}, .output = output_, .format = "zarr", .drop_last = 2});
  EXPECT_EQ(OpenDataset(output_, {}, catalogue_)->episode_ends().back(), 2);
}

TEST_F(DatasetConversionTest, AnUnknownRateStaysUnknownOrIsAskedFor) {
  const fs::path source = Write("source.zarr", 0.0);
  Convert({.sources = {source}, .output = output_, .format = "zarr"});
  EXPECT_EQ(RateIn(output_), 0.0);
  EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                        [&] {
                          Convert({.sources = {source},
                                   .output = scratch_.path() / "lerobot",
                                   .format = "lerobot"});
                        }),
              AllOf(HasSubstr("does not say at which rate"), HasSubstr("--fps 30")));
  EXPECT_FALSE(fs::exists(scratch_.path() / "lerobot"));
  const fs::path with_rate = scratch_.path() / "with_rate.zarr";
  Convert({.sources = {source}, .reading = {.fps = 30.0}, .output = with_rate, .format = "zarr"});
  EXPECT_EQ(RateIn(with_rate), 30.0);
}

TEST_F(DatasetConversionTest, ARateThatIsGivenHoldsForDataSetsThatDoNotSayTheirs) {
  const fs::path unknown = Write("unknown.zarr", 0.0);
  const fs::path known = Write("known.zarr", 30.0);
  const auto merge = [&](const DatasetReading& reading) {
    Convert({.sources = {unknown, known}, .reading = reading, .output = output_, .format = "zarr"});
  };
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { merge({}); }),
              AllOf(HasSubstr("rate unknown"), HasSubstr("30 Hz"), HasSubstr("with --fps")));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { merge({.fps = 20.0}); }),
              HasSubstr("says that it has 30 Hz"));
  EXPECT_FALSE(fs::exists(output_));
  merge({.fps = 30.0});
  EXPECT_EQ(RateIn(output_), 30.0);
}

// Sources of the same name and size, from which one output is continued.
TEST_F(DatasetConversionTest, AnOutputIsNotContinuedFromOtherData) {
  if (!fs::exists(fs::path(DPB_PLUGIN_DIR) / "libdpb_writer_hdf5.so")) GTEST_SKIP();
  fs::create_directory(scratch_.path() / "mon");
  fs::create_directory(scratch_.path() / "tue");
  const fs::path monday = Write("mon/data.zarr", 10.0);
  const fs::path tuesday = Write("tue/data.zarr", 10.0, 7.0F);
  const fs::path output = scratch_.path() / "both.hdf5";
  const auto convert = [&](const fs::path& source) {
    return ConvertOneEpisode({.sources = {source}, .output = output, .format = "hdf5"})
        .is_interrupted;
  };
  ASSERT_TRUE(convert(monday)) << "after one of two episodes";
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { convert(tuesday); }),
              AllOf(HasSubstr("both.hdf5.unfinished holds 1 episodes"), HasSubstr(monday.string()),
                    HasSubstr(tuesday.string()), HasSubstr("Remove it to begin again")));
  fs::last_write_time(monday / "data/state/0.0", fs::file_time_type::clock::now() +
                                                     std::chrono::seconds(5));  // repaired in place
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { convert(monday); }), HasSubstr("other data"));
  EXPECT_FALSE(fs::exists(output));

  fs::remove_all(output.string() + ".unfinished");
  ASSERT_TRUE(convert(tuesday)) << "begun again";
  EXPECT_FALSE(convert(tuesday)) << "continued";
  EXPECT_TRUE(fs::exists(output));
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path()), {}), 3)
      << "the sources and the output";
}

// Also into a folder of the source, whose files then become more.
TEST_F(DatasetConversionTest, AnInterruptedCopyHasTheEpisodesThatItSaysAndIsContinued) {
  const fs::path source = Write("source.zarr", 10.0);
  for (const fs::path& output : {output_, source / "copy.zarr"}) {
    const DatasetConversion request = {.sources = {source}, .output = output, .format = "zarr"};
    const ConversionReport report = ConvertOneEpisode(request);
    ASSERT_TRUE(report.is_interrupted);
    EXPECT_EQ(report.outputs[0].n_episodes, 1);
    EXPECT_EQ(OpenDataset(output, {}, catalogue_)->episode_ends().size(), 1U);
    EXPECT_FALSE(ConvertOneEpisode(request).is_interrupted);
    EXPECT_EQ(OpenDataset(output, {}, catalogue_)->episode_ends().size(), 2U);
    EXPECT_FALSE(fs::exists(output.string() + ".unfinished.json"));
  }
}

TEST_F(DatasetConversionTest, CopiesHaveTheTasksThatAreStated) {
  const fs::path source = Write("source.zarr", 10.0);
  const auto task_of_copy = [&](const fs::path& from, const char* to, const std::string& stated) {
    const fs::path copy = scratch_.path() / to;
    Convert({.sources = {from}, .output = copy, .format = "zarr", .task = stated});
    return OpenDataset(copy, {}, catalogue_)->Task(1);
  };
  EXPECT_EQ(task_of_copy(source, "silent.zarr", ""), "");
  EXPECT_EQ(task_of_copy(source, "told.zarr", "push"), "push");
  EXPECT_EQ(task_of_copy(scratch_.path() / "told.zarr", "again.zarr", "not this"), "push");
}

TEST_F(DatasetConversionTest, DepthInMetresBecomesMillimetres) {
  const fs::path source = scratch_.path() / "metres.zarr";
  const std::vector<float> metres = {0.0005F, 0.0015F, 1.2345F, -1.0F, std::nanf(""), 70.0F};
  {
    data::ReplayDatasetWriter writer(
        source, "test",
        {.keys = {{.name = "action", .shape = {1}}, {.name = "far", .shape = {2, 3, 1}}}});
    writer.BeginEpisode({.n_steps = 2, .task = ""});
    for (int step = 0; step < 2; ++step) {
      const std::vector<std::span<const std::byte>> values = {
          std::as_bytes(std::span(metres).first(1)), std::as_bytes(std::span(metres))};
      writer.Append(values);
    }
    writer.Finish();
  }
  EXPECT_THAT(Convert({.sources = {source},
                       .reading = {.keys = R"({"action": {}, "far": {"type": "depth"}})"},
                       .output = output_,
                       .format = "zarr"}),
              ElementsAre(HasSubstr("far: metres rounded to millimetres")));
  const auto copy = OpenDataset(output_, {}, catalogue_);
  ASSERT_EQ(
      copy->spec().keys[1],
      (KeySpec{
          .name = "far", .type = KeyType::kDepth, .shape = {1, 2, 3}, .dtype = DType::kUInt16}));
  std::vector<std::uint16_t> millimetres(12);
  copy->Read(1, 0, 2, std::as_writable_bytes(std::span(millimetres)));
  EXPECT_THAT(millimetres, ElementsAre(1, 2, 1235, 0, 0, 65535, 1, 2, 1235, 0, 0, 65535));
}

TEST_F(DatasetConversionTest, CopiesKeepTheNamesOfChannels) {
  const fs::path first = Write("first.zarr", 10.0, 1.0F, {{"state", {"x", "y"}}});
  const fs::path second = Write("second.zarr", 10.0, 1.0F, {{"state", {"y", "x"}}});
  const fs::path copy = scratch_.path() / "copy.zarr";
  Convert({.sources = {first}, .output = copy, .format = "zarr"});
  EXPECT_THAT(OpenDataset(copy, {}, catalogue_)->ChannelNames(1), ElementsAre("x", "y"));
  EXPECT_THAT(OpenDataset(copy, {}, catalogue_)->ChannelNames(0), ElementsAre());
  EXPECT_THAT(MessageOf(ErrorCode::kShape,
                        [&] {
                          Convert({.sources = {copy, second}, .output = output_, .format = "zarr"});
                        }),
              HasSubstr("channel 0 of 'state' is 'x'"));
  const std::string part = R"({"action": {}, "x": {"array": "data/state", "begin": 1}})";
  EXPECT_THAT(OpenDataset(copy, {.keys = part}, catalogue_)->ChannelNames(1), ElementsAre("y"));
}

TEST_F(DatasetConversionTest, CopiesKeepWhatAllSourcesSayAboutTheirEpisodes) {
  const fs::path first =
      Write("first.zarr", 10.0, 1.0F, {}, {{"seed", {3, 5}}, {"success", {true, false}}});
  const fs::path second =
      Write("second.zarr", 10.0, 1.0F, {}, {{"seed", {7, 8}}, {"score", {0.5, 1.0}}});
  const auto said_by = [](const fs::path& path) {
    return data::ReadReplayAttributes(path).value("episodes", nlohmann::json());
  };
  const auto copy = [&](const char* name, DatasetConversion request) {
    request.output = scratch_.path() / name;
    request.format = "zarr";
    EXPECT_THAT(Convert(request), ElementsAre());
    return said_by(request.output);
  };
  EXPECT_EQ(copy("turned.zarr", {.sources = {first}, .episodes = {{1, 0}}}),
            nlohmann::json({{"seed", {5, 3}}, {"success", {false, true}}}));
  EXPECT_EQ(copy("one.zarr", {.sources = {first}, .episodes = {{1}}, .drop_last = 1}),
            nlohmann::json({{"seed", {5}}, {"success", {false}}}));

  EXPECT_THAT(Convert({.sources = {first, second}, .output = output_, .format = "zarr"}),
              ElementsAre("left out: score of each episode, success of each episode"));
  EXPECT_EQ(said_by(output_), nlohmann::json({{"seed", {3, 5, 7, 8}}}));
  EXPECT_THAT(
      Convert({.sources = {first}, .output = scratch_.path() / "lerobot", .format = "lerobot"}),
      Contains("left out: seed of each episode, success of each episode"));
}

TEST_F(DatasetConversionTest, AnInterruptedCopySaysAsMuchAboutItsEpisodes) {
  const fs::path source = Write("source.zarr", 10.0, 1.0F, {}, {{"seed", {3, 5}}});
  const auto seeds = [&] {
    ConvertOneEpisode({.sources = {source}, .output = output_, .format = "zarr"});
    return data::ReadReplayAttributes(output_).at("episodes").at("seed");
  };
  EXPECT_EQ(seeds(), nlohmann::json::array({3}));
  EXPECT_EQ(seeds(), nlohmann::json::array({3, 5}));
}

TEST_F(DatasetConversionTest, WhatACopyDoesNotSayIsNoted) {
  const fs::path source = Write("source.zarr", 10.0);
  nlohmann::json attributes = data::ReadReplayAttributes(source);
  attributes["origin"]["env"] = {{"plugin", "pusht"}};
  attributes["failures"] = {{{"seed", 4}, {"reason", "timeout"}}};
  core::WriteFileAtomically(source / ".zattrs", attributes.dump());
  EXPECT_THAT(Convert({.sources = {source}, .output = output_, .format = "zarr"}),
              ElementsAre("left out: failures, origin.env"));

  const fs::path lerobot = scratch_.path() / "lerobot";
  Convert({.sources = {output_}, .output = lerobot, .format = "lerobot"});
  core::WriteFileAtomically(lerobot / "meta/modality.json", "{}");
  EXPECT_THAT(Convert({.sources = {lerobot}, .output = scratch_.path() / "b", .format = "lerobot"}),
              Contains("left out: meta/modality.json"));
}

TEST_F(DatasetConversionTest, KeysAreNamedOrMapped) {
  const fs::path source = Write("source.zarr", 10.0);
  EXPECT_THAT(KeysIn(source, ""), ElementsAre("action [1]", "state [2]"));
  EXPECT_THAT(KeysIn(source, "action"), ElementsAre("action [1]"));
  EXPECT_THAT(KeysIn(source, R"({"action": {}, "x": {"array": "data/state", "begin": 1}})"),
              ElementsAre("action [1]", "x [1]"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { KeysIn(source, "action,,state"); }),
              HasSubstr("expected names, each once"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { KeysIn(source, "{action}"); }),
              HasSubstr("not an object in JSON"));
}

TEST_F(DatasetConversionTest, AToleranceIsForLeRobotAlone) {
  const fs::path source = Write("source.zarr", 10.0);
  EXPECT_THAT(
      MessageOf(ErrorCode::kUsage, [&] { OpenDataset(source, {.tolerance_s = 0.01}, catalogue_); }),
      HasSubstr("is zarr"));
}

}  // namespace
}  // namespace dp_bench::task
