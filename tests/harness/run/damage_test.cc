// Damaged checkpoints, full disks and read-only disks give a clear error and never a partial
// checkpoint, and the previous checkpoint still loads.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "dp_bench/random.h"
#include "run/checkpoint.h"
#include "support/child_process.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMaxFileBytes = 1U << 24;

/// Every file that a training writes, each as small as possible.
CheckpointContents ContentsOf(int epoch, std::int64_t size = 3) {
  CheckpointContents contents;
  for (const std::string_view file : {kModelFile, kEmaFile, kNormalizerFile, kOptimizerFile}) {
    Array weight(DType::kFloat32, {size});
    weight.as<float>()[0] = static_cast<float>(epoch);
    contents.tensors[std::string(file)].emplace("weight", weight);
    contents.tensors[std::string(file)].emplace("n", Array(DType::kInt64, {}));
  }
  contents.config = R"({"training": {"num_epochs": 4}})"
                    "\n";
  contents.state = fmt::format("{{\"epoch\": {}}}\n", epoch);
  return contents;
}

std::string StateOf(int epoch) { return ContentsOf(epoch).state; }

/// Does not wait for the disk, unlike our other writes: ext4 waits when a file is truncated.
void Overwrite(const fs::path& path, std::span<const std::byte> bytes) {
  fs::remove(path);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

/// A store with `latest` of epoch 2, which the test damages, and a checkpoint of epoch 1.
class DamagedCheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    store_.Save(EpochName(1) + "-val_loss=0.500", ContentsOf(1));
    store_.Save(kLatest, ContentsOf(2));
    testing::internal::CaptureStderr();  // of thousands of warnings
  }
  void TearDown() override { testing::internal::GetCapturedStderr(); }

  fs::path latest() const { return scratch_.path() / kLatest; }

  /// Replaces the file's content by `bytes`. Returns what was wrong with the behaviour, or nothing.
  std::string ProblemWith(const fs::path& file, std::span<const std::byte> bytes) {
    Overwrite(file, bytes);
    try {
      Checkpoint::Open(latest());
      return fmt::format("{}: opened in spite of the damage", file.filename().string());
    } catch (const Error& error) {
      const bool is_clear = error.code() == ErrorCode::kCheckpoint &&
                            std::string(error.what()).find(latest()) != std::string::npos;
      if (!is_clear) return fmt::format("no clear error: {}", error.what());
    }
    return store_.OpenLatest()->state() == StateOf(1) ? "" : "the one before did not load";
  }

  ScratchFolder scratch_;
  CheckpointStore store_{scratch_.path()};
};

TEST_F(DamagedCheckpointTest, EveryCutOfEveryFileIsAnErrorAndTheOneBeforeLoads) {
  std::size_t n_cuts = 0;
  for (const std::string& name : NamesIn(latest())) {
    const fs::path file = latest() / name;
    const std::vector<std::byte> whole = core::ReadFile(file, kMaxFileBytes);
    for (std::size_t size = 0; size < whole.size(); ++size, ++n_cuts) {
      const std::string problem = ProblemWith(file, std::span(whole).first(size));
      ASSERT_EQ(problem, "") << name << " cut to " << size << " bytes";
    }
    Overwrite(file, whole);
  }
  RecordProperty("cuts", static_cast<int>(n_cuts));
  EXPECT_GT(n_cuts, 2000U);
  EXPECT_EQ(store_.OpenLatest()->state(), StateOf(2));
}

// DPB_BIT_FLIPS: their number
TEST_F(DamagedCheckpointTest, EveryFlippedBitIsAnErrorAndTheOneBeforeLoads) {
  struct Place {
    fs::path file;
    std::size_t byte;
  };
  std::vector<Place> places;
  for (const std::string& name : NamesIn(latest())) {
    const fs::path file = latest() / name;
    for (std::size_t i = 0; i < fs::file_size(file); ++i) places.push_back({file, i});
  }
  const char* const asked = std::getenv("DPB_BIT_FLIPS");
  const int n_flips = asked != nullptr ? std::atoi(asked) : 1000;
  RandomStream random(1, StreamId::kEnvStart);
  for (int i = 0; i < n_flips; ++i) {
    const Place& place = places[random.UniformInt(static_cast<std::uint32_t>(places.size()))];
    const std::vector<std::byte> whole = core::ReadFile(place.file, kMaxFileBytes);
    std::vector<std::byte> flipped = whole;
    flipped[place.byte] ^= std::byte{1} << random.UniformInt(8);
    ASSERT_EQ(ProblemWith(place.file, flipped), "") << place.file << ", byte " << place.byte;
    Overwrite(place.file, whole);
  }
  EXPECT_EQ(store_.OpenLatest()->state(), StateOf(2));
}

TEST(CheckpointStore, GoesBackToTheLatestCompleteEpoch) {
  const ScratchFolder scratch;
  CheckpointStore store(scratch.path());
  for (const int epoch : {9998, 10000, 2}) store.Save(EpochName(epoch), ContentsOf(epoch));
  EXPECT_EQ(store.OpenLatest()->state(), StateOf(10000));
  fs::resize_file(scratch.path() / EpochName(10000) / "state.json", 1);
  EXPECT_EQ(store.OpenLatest()->state(), StateOf(9998));
  store.Save(kLatest, ContentsOf(5));
  EXPECT_EQ(store.OpenLatest()->state(), StateOf(5));
}

TEST(CheckpointStore, OnADiskThatIsFullAtAnyPageTheOneBeforeIsKept) {
  const ScratchFolder scratch;
  const fs::path& disk = scratch.path();
  OnSmallDisk(disk, 64 * kPageBytes, [&] {
    CheckpointStore store(disk / "checkpoints");
    store.Save(kLatest, ContentsOf(1));
    int n_full = 0;
    for (std::size_t n_free = 0; n_free < 20; ++n_free) {
      ResizeSmallDisk(disk, 64 * kPageBytes);
      store.Save(kLatest, ContentsOf(1));
      const std::size_t n_used = 64 - fs::space(disk).free / kPageBytes;
      ResizeSmallDisk(disk, (n_used + n_free) * kPageBytes);
      try {
        store.Save(kLatest, ContentsOf(2, 1500));
        EXPECT_EQ(store.OpenLatest()->state(), StateOf(2));
      } catch (const Error& error) {
        ++n_full;
        EXPECT_EQ(error.code(), ErrorCode::kIo);
        EXPECT_THAT(error.what(),
                    AllOf(HasSubstr("No space left on device"), HasSubstr(disk.string())));
        EXPECT_EQ(store.OpenLatest()->state(), StateOf(1));
      }
      EXPECT_THAT(NamesIn(disk / "checkpoints"), testing::ElementsAre("latest")) << n_free;
    }
    EXPECT_GE(n_full, 8);
    EXPECT_LT(n_full, 20);
  });
}

TEST(CheckpointStore, InAReadOnlyFolderTheOneBeforeIsKept) {
  const ScratchFolder scratch;
  OnSmallDisk(scratch.path(), 64 * kPageBytes, [&] {
    CheckpointStore store(scratch.path() / "checkpoints");
    store.Save(kLatest, ContentsOf(1));
    MakeSmallDiskReadOnly(scratch.path());
    EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { store.Save(kLatest, ContentsOf(2)); }),
                AllOf(HasSubstr("Read-only file system"), HasSubstr(scratch.path().string())));
    EXPECT_EQ(store.OpenLatest()->state(), StateOf(1));
  });
}

}  // namespace
}  // namespace dp_bench::run
