// The output of a training and a collection: checkpoints, snapshots, logs, datasets.
#include <gtest/gtest.h>

#include <cerrno>

#include "core/atomic_file.h"
#include "core/json_log.h"
#include "data/replay_writer.h"
#include "harness/writers/single_fault.h"
#include "run/checkpoint.h"
#include "support/error_of.h"
#include "support/event_file.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"
#include "train/checkpoint_schedule.h"
#include "train/event_writer.h"
#include "train/resume_point.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;
using enum FaultyCall;

constexpr const char* kRow = R"({"loss":0.5})";
constexpr std::int64_t kRowBytes = 13;
constexpr const char* kFirstBest = "epoch=0001-train_loss=0.900";
constexpr const char* kSecondBest = "epoch=0002-train_loss=0.100";

run::CheckpointContents Contents(const std::string& state) {
  run::CheckpointContents contents = {.config = "{}\n", .state = state};
  for (const std::string_view file : {run::kModelFile, run::kNormalizerFile}) {
    contents.tensors[std::string(file)].emplace("weight", Array(DType::kFloat32, {4}));
  }
  return contents;
}

// The state with which a training resumes there.
std::string LatestState(const fs::path& folder) {
  run::CheckpointStore store(folder);
  store.Repair();
  const std::optional<run::Checkpoint> latest = store.OpenLatest();
  return latest ? latest->state() : "no checkpoint";
}

TEST(TrainingFaults, LatestIsTheOldCheckpointOrTheNewOne) {
  FailEachCallOnce({.name = "checkpoint",
                    .calls = {kOpen, kWrite, kFsync, kRename, kMkdir, kRemove},
                    .prepare =
                        [](const fs::path& folder) {
                          run::CheckpointStore(folder).Save(run::kLatest, Contents(kOld));
                        },
                    .write =
                        [](const fs::path& folder) {
                          run::CheckpointStore(folder).Save(run::kLatest, Contents(kNew));
                        },
                    .find = LatestState});
}

TEST(TrainingFaults, OfTheBestCheckpointsNoneIsHalfAndOneIsThere) {
  const auto save = [](const fs::path& folder, const char* state, train::CheckpointSave names) {
    run::CheckpointStore store(folder);
    train::CheckpointWriter writer(store, /*is_background=*/true, [] {});
    writer.Save(std::move(names), [&](run::CheckpointContents* to) { *to = Contents(state); });
    writer.Finish();
  };
  FailEachCallOnce(
      {.name = "k best checkpoints",
       .calls = {kOpen, kWrite, kFsync, kRename, kMkdir, kRemove},
       .prepare = [=](const fs::path& folder) { save(folder, kOld, {.best = kFirstBest}); },
       .write =
           [=](const fs::path& folder) {
             save(folder, kNew, {.best = kSecondBest, .remove = kFirstBest});
           },
       .find = [](const fs::path& folder) -> std::string {
         const std::string latest = LatestState(folder);
         const bool has_first = fs::exists(folder / kFirstBest);
         const bool has_second = fs::exists(folder / kSecondBest);
         if (has_second) run::Checkpoint::Open(folder / kSecondBest);
         if (!has_second && has_first) run::Checkpoint::Open(folder / kFirstBest);
         if (!has_first && !has_second) return "no best checkpoint";
         return latest == kNew && has_second && !has_first ? kNew : latest == kNew ? kOld : latest;
       }});
}

TEST(TrainingFaults, ASnapshotIsTheOldOneOrTheNewOne) {
  const auto write = [](const fs::path& folder, const char* state) {
    train::WriteSnapshot(folder, "mine", Contents(state), 2 * kRowBytes);
  };
  FailEachCallOnce({.name = "snapshot",
                    .calls = {kOpen, kWrite, kFsync, kRename, kMkdir, kRemove},
                    .prepare =
                        [=](const fs::path& folder) {
                          core::JsonLog log(folder / "logs.json.txt", 0);
                          for (int i = 0; i < 3; ++i) log.Append(kRow);
                          write(folder, kOld);
                        },
                    .write = [=](const fs::path& folder) { write(folder, kNew); },
                    .find = [](const fs::path& folder) -> std::string {
                      run::CheckpointStore(folder / train::kSnapshotFolder).Repair();
                      const fs::path snapshot = folder / train::kSnapshotFolder / "mine";
                      if (fs::file_size(snapshot / "logs.json.txt") != 2 * kRowBytes) return "log";
                      return LatestState(snapshot / "checkpoints");
                    }});
}

TEST(TrainingFaults, ATrainingThatContinuesElsewhereIsThereOrNot) {
  FailEachCallOnce(
      {.name = "training in a copy",
       .calls = {kOpen, kWrite, kFsync, kRename, kMkdir},
       .prepare =
           [](const fs::path& folder) {
             run::CheckpointStore(folder / "a/checkpoints").Save(run::kLatest, Contents(kNew));
           },
       .write =
           [](const fs::path& folder) {
             if (!fs::exists(folder / "b")) train::CreateFromSnapshot(folder / "a", folder / "b");
           },
       .find = [](const fs::path& folder) -> std::string {
         if (!fs::exists(folder / "b")) return kOld;
         return LatestState(folder / "b/checkpoints");
       }});
}

TEST(TrainingFaults, ALogHoldsWholeRows) {
  FailEachCallOnce({.name = "json log",
                    .calls = {kOpen, kWrite, kFsync, kTruncate},
                    .prepare =
                        [](const fs::path& folder) {
                          core::JsonLog log(folder / "log", 0);
                          for (int i = 0; i < 3; ++i) log.Append(kRow);
                        },
                    .write =
                        [](const fs::path& folder) {
                          core::JsonLog log(folder / "log",
                                            2 * kRowBytes);  // where the checkpoint stood
                          log.Append(kRow);
                          log.Append(kRow);
                          log.Sync();
                        },
                    .find = [](const fs::path& folder) -> std::string {
                      const auto bytes = static_cast<std::int64_t>(fs::file_size(folder / "log"));
                      if (bytes == 4 * kRowBytes) return kNew;
                      return bytes % kRowBytes == 0 && bytes >= 2 * kRowBytes ? kOld : "half a row";
                    }});
}

TEST(TrainingFaults, ALogGoesOnBehindARowThatDidNotFit) {
  const ScratchFolder scratch;
  core::JsonLog log(scratch.path() / "log", 0);
  {
    const InjectedFault full(scratch.path(), kWrite, kShortWriteThenFull, 1);
    EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { log.Append(kRow); }),
                testing::HasSubstr("No space left"));
  }
  log.Append(kRow);
  EXPECT_EQ(log.position(), kRowBytes);
  EXPECT_EQ(core::ReadTextFile(scratch.path() / "log", 1000), std::string(kRow) + "\n");
}

TEST(TrainingFaults, EarlierEventsStayAndLaterOnesAreWhole) {
  FailEachCallOnce(
      {.name = "tensorboard events",
       .calls = {kOpen, kWrite, kFsync},
       .prepare =
           [](const fs::path& folder) { train::EventWriter(folder).AddScalar("loss", 1.0, 0); },
       .write =
           [](const fs::path& folder) {
             train::EventWriter events(folder, 1);
             events.AddScalar("loss", 0.5, 1);
             events.Flush();
             events.Sync();
           },
       .find = [](const fs::path& folder) -> std::string {
         bool is_old_there = false;
         bool is_new_there = false;
         for (const auto& entry : fs::directory_iterator(folder)) {
           const std::vector<std::string> events = ReadEvents(entry.path());
           if (events.size() != 3) continue;
           is_old_there = is_old_there || events[2] == train::ScalarEvent(Step(0), "loss", 1.0F);
           is_new_there = is_new_there || events[2] == train::ScalarEvent(Step(1), "loss", 0.5F);
         }
         if (!is_old_there) return "the earlier events are lost";
         return is_new_there ? kNew : kOld;
       }});
}

// A number, and an image that fills a chunk.
std::vector<KeySpec> Keys() {
  return {{.name = "large", .type = KeyType::kRgb, .shape = {3, 400, 500}, .dtype = DType::kUInt8},
          {.name = "action", .shape = {2}}};
}

data::ReplayEpisode Episode(std::byte content) {
  const std::vector<KeySpec> keys = Keys();
  data::ReplayEpisode episode(keys);
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::span<const std::byte>> values;
  for (const KeySpec& key : keys) memory.emplace_back(key.ByteSize(), content);
  for (const std::vector<std::byte>& bytes : memory) values.emplace_back(bytes);
  episode.Append(values);
  return episode;
}

TEST(TrainingFaults, ADataSetKeepsItsEpisodesAndGoesOn) {
  const auto collect = [](const fs::path& folder, int n, bool is_complete) {
    data::ReplayWriter writer(folder, Keys(), {{"env", "toy"}});
    while (writer.n_episodes() < n) {
      writer.Append(Episode(static_cast<std::byte>(writer.n_episodes() + 1)));
    }
    writer.Commit({{"fps", 10}}, is_complete);
  };
  const ScratchFolder scratch;
  collect(scratch.path() / "whole", 3, true);
  const FolderContent whole = FilesBelow(scratch.path() / "whole");
  FailEachCallOnce({.name = "dataset",
                    .calls = {kOpen, kWrite, kFsync, kRename},
                    .prepare = [=](const fs::path& folder) { collect(folder / "data", 1, false); },
                    .write = [=](const fs::path& folder) { collect(folder / "data", 3, true); },
                    .find = [&whole](const fs::path& folder) -> std::string {
                      const fs::path data = folder / "data";
                      const std::string differing = DifferingFiles(FilesBelow(data), whole);
                      if (differing.empty()) return kNew;
                      const auto n =
                          zarr::ZarrArrayWriter::RowsOnDisk(data / "meta" / "episode_ends");
                      if (n == 3) return differing == ".zattrs " ? kOld : differing;
                      const bool has_first =
                          core::ReadFile(data / "data/large/0.0.0.0", 1U << 20).size() ==
                          whole.at("data/large/0.0.0.0").size();
                      return n == 1 && has_first ? kOld : "lost the first episode";
                    }});
}

TEST(TrainingFaults, ANewDataSetIsBegunAgain) {
  FailEachCallOnce({.name = "new dataset",
                    .calls = {kOpen, kWrite, kFsync, kRename, kMkdir},
                    .prepare = [](const fs::path&) {},
                    .write =
                        [](const fs::path& folder) {
                          data::ReplayWriter writer(folder / "data", Keys(), {{"env", "toy"}});
                          if (writer.n_episodes() == 0) writer.Append(Episode(std::byte{1}));
                          writer.Commit({{"fps", 10}}, true);
                        },
                    .find = [](const fs::path& folder) -> std::string {
                      const nlohmann::json found = data::ReadReplayAttributes(folder / "data");
                      return !found.is_null() && found.at("complete") == true ? kNew : kOld;
                    }});
}

}  // namespace
}  // namespace dp_bench
