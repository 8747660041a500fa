// A dataset of any format, written as a replay buffer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/replay_writer.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::data {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

DatasetSpec TwoKeys() {
  return {.keys = {{.name = "action", .shape = {1}}, {.name = "state", .shape = {2}}}, .fps = 5.0};
}

void AppendEpisode(ReplayDatasetWriter& writer, int n_steps, const std::string& task = "") {
  writer.BeginEpisode({.n_steps = n_steps, .task = task});
  for (int step = 0; step < n_steps; ++step) {
    const std::vector<float> action = {static_cast<float>(step)};
    const std::vector<float> state = {1.0F, static_cast<float>(n_steps)};
    const std::vector<std::span<const std::byte>> values = {std::as_bytes(std::span(action)),
                                                            std::as_bytes(std::span(state))};
    writer.Append(values);
  }
}

TEST(ReplayDatasetWriter, AnotherWriterContinuesWhatWasCommitted) {
  const ScratchFolder folder;
  const fs::path path = folder.path() / "broken.zarr";
  {
    ReplayDatasetWriter writer(path, "toy", TwoKeys());
    AppendEpisode(writer, 3);
    writer.BeginEpisode({.n_steps = 2, .task = ""});
  }
  ReplayDatasetWriter continued(path, "toy", TwoKeys());
  if (continued.n_episodes() == 0) AppendEpisode(continued, 3);
  AppendEpisode(continued, 4);
  continued.Finish();

  const fs::path unbroken = folder.path() / "unbroken.zarr";
  ReplayDatasetWriter writer(unbroken, "toy", TwoKeys());
  AppendEpisode(writer, 3);
  AppendEpisode(writer, 4);
  writer.Finish();
  EXPECT_EQ(DifferingFiles(path, unbroken), "");
}

// The commits of a process that is killed are those of every few seconds.
TEST(ReplayDatasetWriter, WholeEpisodesAreCommittedAtItsEnd) {
  const ScratchFolder folder;
  const fs::path path = folder.path() / "toy.zarr";
  {
    ReplayDatasetWriter writer(path, "toy", TwoKeys());
    AppendEpisode(writer, 3);
    AppendEpisode(writer, 4);
    writer.BeginEpisode({.n_steps = 2, .task = ""});
  }
  const ReplayDatasetWriter continued(path, "toy", TwoKeys());
  EXPECT_EQ(continued.n_episodes(), 2);
}

TEST(ReplayDatasetWriter, TasksAreStoredAlsoByAWriterThatContinues) {
  const ScratchFolder folder;
  const fs::path path = folder.path() / "toy.zarr";
  {
    ReplayDatasetWriter writer(path, "toy", TwoKeys());
    AppendEpisode(writer, 3, "push");
    AppendEpisode(writer, 2);
  }
  ReplayDatasetWriter writer(path, "toy", TwoKeys());
  AppendEpisode(writer, 1, "grasp");
  writer.Finish();
  EXPECT_EQ(ReadReplayAttributes(path)["tasks"], nlohmann::json({"push", "", "grasp"}));

  ReplayDatasetWriter silent(folder.path() / "silent.zarr", "toy", TwoKeys());
  AppendEpisode(silent, 1);
  silent.Finish();
  EXPECT_FALSE(ReadReplayAttributes(folder.path() / "silent.zarr").contains("tasks"));
}

TEST(ReplayDatasetWriter, FinishedAndForeignDataSetsAreRefused) {
  const ScratchFolder folder;
  const fs::path path = folder.path() / "toy.zarr";
  {
    ReplayDatasetWriter writer(path, "toy", TwoKeys());
    AppendEpisode(writer, 3);
    MessageOf(ErrorCode::kUsage,
              [&] { ReplayDatasetWriter(path, "toy", TwoKeys()); });  // is being written
    writer.Finish();
  }
  MessageOf(ErrorCode::kUsage, [&] { ReplayDatasetWriter(path, "toy", TwoKeys()); });
  const fs::path begun = folder.path() / "begun.zarr";
  { const ReplayWriter writer(begun, TwoKeys().keys, {{"source", "toy"}}); }
  MessageOf(ErrorCode::kUsage, [&] { ReplayDatasetWriter(begun, "another", TwoKeys()); });
}

TEST(ReplayDatasetWriter, NothingIsLeftWithoutACommittedEpisode) {
  const ScratchFolder folder;
  const fs::path path = folder.path() / "toy.zarr";
  {
    ReplayDatasetWriter writer(path, "toy", TwoKeys());
    writer.BeginEpisode({.n_steps = 2, .task = ""});
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(ReplayDatasetWriter, AKeyThatCannotBeStoredLeavesNothing) {
  const ScratchFolder folder;
  for (const KeySpec& key : {KeySpec{.name = "depth", .type = KeyType::kDepth, .shape = {1, 3, 5}},
                             KeySpec{.name = "a/b", .shape = {1}}}) {
    DatasetSpec spec = TwoKeys();
    spec.keys.push_back(key);
    EXPECT_THAT(MessageOf(ErrorCode::kShape,
                          [&] { ReplayDatasetWriter(folder.path() / "toy.zarr", "toy", spec); }),
                AllOf(HasSubstr("'" + key.name + "'"), HasSubstr("--keys action,...")));
    EXPECT_TRUE(fs::is_empty(folder.path()));
  }
}

TEST(ReplayDatasetWriter, AnEmptyDataSetIsRefused) {
  const ScratchFolder folder;
  ReplayDatasetWriter writer(folder.path() / "toy.zarr", "toy", TwoKeys());
  MessageOf(ErrorCode::kUsage, [&] { writer.Finish(); });
}

}  // namespace
}  // namespace dp_bench::data
