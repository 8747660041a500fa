// Checkpoint folders: checksums, replacement that survives a kill at every point.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>
#include <string>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "run/checkpoint.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

CheckpointContents SmallContents(int step) {
  CheckpointContents contents;
  for (const std::string_view file : {kModelFile, kNormalizerFile}) {
    Array array(DType::kFloat32, {4});
    array.as<float>()[0] = static_cast<float>(step);
    contents.tensors[std::string(file)].emplace("weight", array);
  }
  contents.config = "{}\n";
  contents.state = std::to_string(step);
  return contents;
}

std::string ErrorOnOpening(const fs::path& folder) {
  return MessageOf(ErrorCode::kCheckpoint, [&] { Checkpoint::Open(folder); });
}

void FlipByte(const fs::path& path, std::int64_t position) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(position);
  const int byte = file.get();
  file.seekp(position);
  file.put(static_cast<char>(byte ^ 1));
}

TEST(Checkpoint, GivesBackWhatWasWritten) {
  const ScratchFolder scratch;
  CheckpointStore store(scratch.path());
  store.Save("latest", SmallContents(7));
  const Checkpoint checkpoint = Checkpoint::Open(scratch.path() / "latest");
  EXPECT_EQ(checkpoint.state(), "7");
  EXPECT_EQ(checkpoint.config(), "{}\n");
  EXPECT_EQ(checkpoint.ReadTensors(kModelFile).at("weight").as<float>()[0], 7.0F);
  EXPECT_FALSE(checkpoint.Has(kEmaFile));
  EXPECT_THROW(checkpoint.ReadTensors(kEmaFile), Error);
}

TEST(Checkpoint, EqualContentsGiveEqualFiles) {
  const ScratchFolder scratch;
  CheckpointStore store(scratch.path());
  store.Save("a", SmallContents(7));
  store.Save("b", SmallContents(7));
  for (const std::string& name : NamesIn(scratch.path() / "a")) {
    EXPECT_EQ(core::ReadFile(scratch.path() / "a" / name, 10000),
              core::ReadFile(scratch.path() / "b" / name, 10000))
        << name;
  }
}

TEST(Checkpoint, NamesTheFileWhosePayloadChanged) {
  const ScratchFolder scratch;
  CheckpointStore(scratch.path()).Save("latest", SmallContents(7));
  const fs::path file = scratch.path() / "latest" / kNormalizerFile;
  FlipByte(file, static_cast<std::int64_t>(fs::file_size(file)) - 1);
  EXPECT_THAT(ErrorOnOpening(scratch.path() / "latest"),
              testing::AllOf(HasSubstr("normalizer.safetensors"), HasSubstr("SHA-256")));
}

TEST(Checkpoint, NamesTheFileThatIsMissingOrCut) {
  const ScratchFolder scratch;
  const fs::path folder = scratch.path() / "latest";
  CheckpointStore(scratch.path()).Save("latest", SmallContents(7));
  fs::resize_file(folder / kModelFile, 20);
  EXPECT_THAT(ErrorOnOpening(folder), HasSubstr("model.safetensors' has 20 bytes"));
  fs::remove(folder / kModelFile);
  EXPECT_THAT(ErrorOnOpening(folder), HasSubstr("model.safetensors' is listed"));
  fs::remove(folder / "manifest.json");
  EXPECT_THAT(ErrorOnOpening(folder), HasSubstr("manifest.json' is missing"));
}

TEST(Checkpoint, ManifestCannotNameFilesOutsideTheFolder) {
  const ScratchFolder scratch;
  fs::create_directories(scratch.path() / "evil");
  core::WriteFileAtomically(
      scratch.path() / "evil" / "manifest.json",
      R"({"format_version": 1, "files": {"../secret": {"sha256": "", "bytes": 0}}})");
  EXPECT_THAT(ErrorOnOpening(scratch.path() / "evil"), HasSubstr("points outside of the folder"));
}

TEST(Checkpoint, RefusesADamagedManifestAndAFutureFormat) {
  const ScratchFolder scratch;
  const fs::path manifest = scratch.path() / "manifest.json";
  for (const char* text : {"", "[]", "{", R"({"format_version": 1, "files": [1]})",
                           R"({"format_version": 1, "files": {"a": {"sha256": 3}}})"}) {
    core::WriteFileAtomically(manifest, text);
    EXPECT_THAT(ErrorOnOpening(scratch.path()), HasSubstr("is damaged")) << text;
  }
  core::WriteFileAtomically(manifest, R"({"format_version": 3, "files": {}})");
  EXPECT_THAT(ErrorOnOpening(scratch.path()), HasSubstr("format version 3"));
}

/// Saves checkpoint 2 over checkpoint 1 in a child process that is killed after step `fatal_step`;
/// 0 kills it in the middle of a write.
void SaveAndDie(const fs::path& folder, int fatal_step) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (fatal_step == 0) {
      core::AtomicFolder half(folder / "latest");
      core::WriteFileAtomically(half.temporary() / "config.json", "{");
      kill(getpid(), SIGKILL);
    }
    CheckpointStore store(folder, [fatal_step](int step) {
      if (step == fatal_step) kill(getpid(), SIGKILL);
    });
    store.Save(kLatest, SmallContents(2));
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST(CheckpointStore, ACompleteLatestSurvivesAKillAtEveryStep) {
  for (int step = 0; step <= 4; ++step) {
    const ScratchFolder scratch;
    CheckpointStore store(scratch.path());
    store.Save(kLatest, SmallContents(1));
    SaveAndDie(scratch.path(), step);
    const std::string wanted = step <= 2 ? "1" : "2";
    EXPECT_EQ(store.OpenLatest()->state(), wanted) << "killed after step " << step;

    // the next process cleans up and continues
    store.Repair();
    EXPECT_THAT(NamesIn(scratch.path()), ElementsAre("latest")) << "killed after step " << step;
    EXPECT_EQ(store.OpenLatest()->state(), wanted);
    store.Save(kLatest, SmallContents(3));
    EXPECT_EQ(store.OpenLatest()->state(), "3");
    EXPECT_THAT(NamesIn(scratch.path()), ElementsAre("latest"));
  }
}

TEST(CheckpointStore, SavingWithoutRepairKeepsTheOldOneUntilTheNewOneIsThere) {
  const ScratchFolder scratch;
  CheckpointStore(scratch.path()).Save(kLatest, SmallContents(1));
  SaveAndDie(scratch.path(), 2);  // only latest.old is left
  CheckpointStore store(scratch.path(), [&](int step) {
    EXPECT_EQ(fs::exists(scratch.path() / "latest.old"), step <= 3) << "after step " << step;
  });
  store.Save(kLatest, SmallContents(3));
  EXPECT_EQ(store.OpenLatest()->state(), "3");
}

TEST(CheckpointStore, FallsBackToTheOldOneWhenLatestIsDamaged) {
  const ScratchFolder scratch;
  CheckpointStore store(scratch.path());
  store.Save(kLatest, SmallContents(1));
  SaveAndDie(scratch.path(), 3);  // both are left
  FlipByte(scratch.path() / "latest" / "state.json", 0);
  EXPECT_EQ(store.OpenLatest()->state(), "1");
  store.Repair();
  EXPECT_THAT(NamesIn(scratch.path()), ElementsAre("latest"));
  EXPECT_EQ(store.OpenLatest()->state(), "1");
}

TEST(CheckpointStore, TellsNothingFromDamage) {
  const ScratchFolder scratch;
  CheckpointStore store(scratch.path() / "checkpoints");
  EXPECT_FALSE(store.HasCheckpoints());
  EXPECT_FALSE(store.OpenLatest().has_value());
  store.Save(kLatest, SmallContents(1));
  EXPECT_TRUE(store.HasCheckpoints());
  FlipByte(store.folder() / "latest" / "state.json", 0);
  EXPECT_THROW(store.OpenLatest(), Error);
}

}  // namespace
}  // namespace dp_bench::run
