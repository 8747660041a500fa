// Event files from a reader's view: framing, order of files, full disks.
#include "train/event_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "media/png.h"
#include "support/error_of.h"
#include "support/event_file.h"
#include "support/file_size_limit.h"
#include "support/scratch_folder.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class EventWriterTest : public testing::Test {
 protected:
  const ScratchFolder scratch_;
};

TEST_F(EventWriterTest, WritesEventsInTheOrderOfTheCalls) {
  EventWriter writer(scratch_.path() / "new" / "folder");
  RgbImage image(5, 4);
  std::ranges::fill(image.pixels, std::uint8_t{77});
  writer.AddScalar("train_loss", 0.25, 3);
  writer.AddScalar("lr", std::numeric_limits<double>::quiet_NaN(), 3);
  writer.AddImage("rollout", image, 5);
  writer.Flush();

  EXPECT_THAT(
      ReadEvents(writer.path()),
      testing::ElementsAre(FileVersionEvent(0.0), SessionStartEvent(Step(0)),
                           ScalarEvent(Step(3), "train_loss", 0.25F),
                           ScalarEvent(Step(3), "lr", std::numeric_limits<float>::quiet_NaN()),
                           ImageEvent(Step(5), "rollout", 5, 4, media::EncodePng(image))));
}

TEST_F(EventWriterTest, EventsCarryTheTimeOfTheCall) {
  const double before = Now();
  EventWriter writer(scratch_.path());
  writer.AddScalar("a", 1.0, 1);
  writer.Flush();
  for (const std::string& event : ReadRecords(writer.path())) {
    double wall_time = 0.0;
    std::memcpy(&wall_time, event.data() + 1, sizeof(wall_time));
    EXPECT_GE(wall_time, before);
    EXPECT_LE(wall_time, Now());
  }
}

TEST_F(EventWriterTest, AResumedRunBeginsASessionInAFileOfItsOwn) {
  const EventWriter first(scratch_.path());
  EventWriter second(scratch_.path(), 120);
  second.Flush();
  EXPECT_THAT(ReadEvents(second.path()),
              testing::ElementsAre(FileVersionEvent(0.0), SessionStartEvent(Step(120))));
  EXPECT_NE(first.path(), second.path());
}

// TensorBoard reads the files of a folder in the order of their names.
TEST_F(EventWriterTest, NewFilesSortBehindThoseThatAreThere) {
  std::ofstream(scratch_.path() / "events.out.tfevents.4000000000.zz.9.9") << "";
  std::ofstream(scratch_.path() / "events.out.tfevents.unrelated") << "";
  std::vector<fs::path> paths;
  for (int i = 0; i < 12; ++i) paths.push_back(EventWriter(scratch_.path()).path());
  EXPECT_TRUE(std::ranges::is_sorted(paths));
  EXPECT_THAT(paths.front().filename().string(),
              testing::StartsWith("events.out.tfevents.4000000001."));
}

TEST_F(EventWriterTest, NamesBeginWithTheSecondsOfNow) {
  const auto before = static_cast<std::int64_t>(Now());
  const std::string name = EventWriter(scratch_.path()).path().filename().string();
  EXPECT_THAT(name,
              testing::MatchesRegex("events\\.out\\.tfevents\\.[0-9]+\\..*\\.[0-9]+\\.[0-9]+"));
  const std::int64_t seconds = std::stoll(name.substr(20));
  EXPECT_GE(seconds, before);
  EXPECT_LE(seconds, static_cast<std::int64_t>(Now()));
}

TEST_F(EventWriterTest, AFullBufferGoesToTheFileByItself) {
  EventWriter writer(scratch_.path());
  for (int step = 0; step < 20'000; ++step) writer.AddScalar("train_loss", 0.5, step);
  EXPECT_GT(fs::file_size(writer.path()), 20'000U * 30);
}

TEST_F(EventWriterTest, DestructionFlushes) {
  const fs::path path = EventWriter(scratch_.path()).path();
  EXPECT_EQ(ReadRecords(path).size(), 2U);
}

TEST_F(EventWriterTest, ContinuesWhereAFullDiskStoppedIt) {
  EventWriter writer(scratch_.path());
  writer.AddScalar("train_loss", 0.5, 1);
  {
    const FileSizeLimit limit(50);  // inside the second record
    EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { writer.Flush(); }),
                testing::HasSubstr(writer.path().string()));
    EXPECT_EQ(CodeOf([&] { writer.Flush(); }), ErrorCode::kIo);
    EXPECT_EQ(fs::file_size(writer.path()), 50U);
  }
  writer.AddScalar("train_loss", 0.25, 2);
  writer.Flush();
  EXPECT_THAT(ReadEvents(writer.path()),
              testing::ElementsAre(FileVersionEvent(0.0), SessionStartEvent(Step(0)),
                                   ScalarEvent(Step(1), "train_loss", 0.5F),
                                   ScalarEvent(Step(2), "train_loss", 0.25F)));
}

TEST_F(EventWriterTest, RefusesEventsWhileTheDiskStaysFull) {
  EventWriter writer(scratch_.path());
  int n_refused = 0;
  {
    const FileSizeLimit limit(50);
    for (int step = 0; step < 5000; ++step) {
      try {
        writer.AddScalar("train_loss", 0.5, step);
      } catch (const Error&) {
        ++n_refused;
      }
    }
  }
  EXPECT_GT(n_refused, 3000);
  writer.Flush();
  EXPECT_EQ(ReadRecords(writer.path()).size(), static_cast<std::size_t>(2 + 5000 - n_refused));
}

TEST_F(EventWriterTest, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(scratch_.path() / "file") << "";
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { EventWriter(scratch_.path() / "file"); }),
              testing::HasSubstr((scratch_.path() / "file").string()));
}

}  // namespace
}  // namespace dp_bench::train
