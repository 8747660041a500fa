// Damaged, inconsistent and malicious datasets give an Error that names the file and, where there
// is one, the episode and the frame.
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <sys/stat.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "dp_bench/error.h"
#include "dp_bench/random.h"
#include "small_lerobot.h"

namespace dp_bench::lerobot::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Opens a dataset and reads everything. The message of the error, or "no error".
std::string Load(const LeRobotConfig& config) {
  try {
    const LeRobotDataset dataset(config);
    const std::int64_t n = dataset.episode_ends().back();
    for (std::size_t key = 0; key < dataset.spec().keys.size(); ++key) {
      const std::size_t step_bytes = dataset.spec().keys[key].ByteSize();
      std::vector<std::byte> bytes(step_bytes);
      for (std::int64_t step = 0; step < n; ++step) {
        dataset.Read(static_cast<int>(key), step, step + 1, bytes);
      }
    }
  } catch (const Error& error) {
    EXPECT_THAT(error.code(), ::testing::AnyOf(ErrorCode::kData, ErrorCode::kConfig,
                                               ErrorCode::kMedia, ErrorCode::kIo))
        << error.what();
    return error.what();
  }
  return "no error";
}

// The dataset `name` with one change.
std::string LoadWith(const std::string& name,
                     const std::function<void(const CopiedFolder&)>& change) {
  const CopiedFolder folder(name);
  change(folder);
  return Load({.path = folder.path()});
}

std::string LoadWithInfo(const std::string& from, const std::string& to) {
  return LoadWith("v30_h264",
                  [&](const CopiedFolder& folder) { folder.Replace("meta/info.json", from, to); });
}

TEST(DamagedLeRobot, AFileThatIsMissingIsNamed) {
  for (const char* file :
       {"meta/info.json", "meta/tasks.parquet", "data/chunk-000/file-001.parquet",
        "videos/observation.images.top/chunk-000/file-002.mp4"}) {
    EXPECT_THAT(LoadWith("v30_h264", [&](const CopiedFolder& f) { fs::remove(f.path() / file); }),
                HasSubstr(file));
  }
  EXPECT_THAT(LoadWith("v30_h264",
                       [](const CopiedFolder& f) { fs::remove_all(f.path() / "meta/episodes"); }),
              HasSubstr("expected the table of episodes"));
}

TEST(DamagedLeRobot, WhatInfoSaysIsChecked) {
  EXPECT_THAT(LoadWithInfo("v3.0", "v1.6"), HasSubstr("expected v2.0, v2.1 or v3.0"));
  EXPECT_THAT(LoadWithInfo("\"fps\": 7", "\"fps\": 0"), HasSubstr("fps: expected a number from"));
  EXPECT_THAT(LoadWithInfo("\"total_frames\": 33", "\"total_frames\": 34"),
              AllOf(HasSubstr("total_frames: is 34"), HasSubstr("has 33")));
  EXPECT_THAT(LoadWithInfo("\"total_episodes\": 3", "\"total_episodes\": 4"),
              HasSubstr("total_episodes: is 4"));
  EXPECT_THAT(LoadWithInfo("data/chunk", "../chunk"), HasSubstr(".."));
  EXPECT_THAT(LoadWithInfo("data/chunk", "/etc/chunk"), HasSubstr("/etc/chunk"));
  EXPECT_THAT(LoadWithInfo("{file_index:03d}.parquet", "{nothing:03d}.parquet"),
              HasSubstr("a field has an unknown name"));
  EXPECT_THAT(LoadWithInfo("{file_index:03d}.parquet", "{file_index:999999999d}.parquet"),
              HasSubstr("a format is not"));
  EXPECT_THAT(LoadWithInfo("\"shape\": [\n                24,", "\"shape\": [\n 2000000000,"),
              HasSubstr("pixels in each direction"));
  EXPECT_THAT(LoadWithInfo("\"shape\": [\n                24,", "\"shape\": [\n 48,"),
              AllOf(HasSubstr("expected a video of 32 x 48 pixels, found 32 x 24"),
                    HasSubstr("episode 0, frame 0 of 'observation.images.top'")));
  EXPECT_THAT(LoadWithInfo("\"shape\": [\n                3\n", "\"shape\": [\n 4\n"),
              HasSubstr("observation.state"));
  EXPECT_THAT(LoadWithInfo("\"fps\": 7", "\"fps\": 7, \"fps\": 8"), HasSubstr("same key twice"));
}

TEST(DamagedLeRobot, MissingStatisticsAreLeftToDpBenchAndDamagedOnesAreNamed) {
  const auto load = [](const std::string& data, const std::string& file, const std::string& from,
                       const std::string& to) {
    return LoadWith(data, [&](const CopiedFolder& f) { f.Replace(file, from, to); });
  };
  for (const char* feature : {"action", "observation.images.top"}) {
    const std::string name = fmt::format("\"{}\"", feature);
    EXPECT_EQ(load("v30_h264", "meta/stats.json", name, "\"else\""), "no error");
    EXPECT_EQ(load("v21_av1", "meta/episodes_stats.jsonl", name, "\"else\""), "no error");
  }
  for (const auto& [data, file] : std::vector<std::pair<std::string, std::string>>{
           {"v30_h264", "meta/stats.json"}, {"v21_av1", "meta/episodes_stats.jsonl"}}) {
    EXPECT_EQ(
        LoadWith(data, [&file = file](const CopiedFolder& f) { fs::remove(f.path() / file); }),
        "no error");
  }
  EXPECT_THAT(load("v30_h264", "meta/stats.json", "\"std\"", "\"stx\""),
              HasSubstr("the key 'std' is missing"));
}

TEST(DamagedLeRobot, ARangeIsThatOfAllEpisodesOrNone) {
  const CopiedFolder folder("v21_av1");
  const fs::path file = folder.path() / "meta/episodes_stats.jsonl";
  EXPECT_TRUE(LeRobotDataset({.path = folder.path()}).RecordedRange(0).has_value());
  const std::string text = ReadText(file);
  WriteText(file, text.substr(0, text.rfind('\n', text.size() - 2) + 1));
  EXPECT_FALSE(LeRobotDataset({.path = folder.path()}).RecordedRange(0).has_value());
}

TEST(DamagedLeRobot, ADepthVideoWithoutItsScaleIsRefused) {
  EXPECT_THAT(LoadWith("v30_av1",
                       [](const CopiedFolder& f) {
                         f.Replace("meta/info.json", "video.depth_max", "video.deep_max");
                       }),
              AllOf(HasSubstr("observation.depth"), HasSubstr("info.video.depth_max")));
}

TEST(DamagedLeRobot, FramesThatAreMissingOrElsewhereAreNamed) {
  EXPECT_THAT(LoadWith("v21_av1",
                       [](const CopiedFolder& f) {
                         f.Replace("meta/episodes.jsonl", "\"length\": 9", "\"length\": 10");
                         f.Replace("meta/info.json", "\"total_frames\": 33",
                                   "\"total_frames\": 34");
                       }),
              AllOf(HasSubstr("episode_000001.parquet: episode 1 has no frame 9"),
                    HasSubstr("but the data files hold 33 rows")));
  EXPECT_THAT(LoadWith("v21_av1",
                       [](const CopiedFolder& f) {
                         const fs::path data = f.path() / "data/chunk-000";
                         fs::copy_file(data / "episode_000000.parquet",
                                       data / "episode_000002.parquet",
                                       fs::copy_options::overwrite_existing);
                       }),
              AllOf(HasSubstr("episode_000002.parquet: episode 0, frame 0"),
                    HasSubstr("the table of episodes says that it is in")));
  // episode 0 has 12 frames, the video of episode 1 nine
  EXPECT_THAT(LoadWith("v21_av1",
                       [](const CopiedFolder& f) {
                         const fs::path videos =
                             f.path() / "videos/chunk-000/observation.images.top";
                         fs::copy_file(videos / "episode_000001.mp4", videos / "episode_000000.mp4",
                                       fs::copy_options::overwrite_existing);
                       }),
              AllOf(HasSubstr("expected a frame at 0.900000 s"),
                    HasSubstr("the nearest one is at 0.800000 s"),
                    HasSubstr("in episode 0, frame 9 of 'observation.images.top'")));
}

TEST(DamagedLeRobot, TimesThatDoNotFitTheRateAreNamed) {
  EXPECT_THAT(LoadWithInfo("\"fps\": 7,\n    \"features\"", "\"fps\": 8,\n    \"features\""),
              AllOf(HasSubstr("file-000.parquet: episode 0, frame 1"),
                    HasSubstr("expected the time 0.125000 s at 8 Hz, found 0.142857 s")));
  // the times agree to a millisecond, but the frames of the video do not
  const CopiedFolder folder("v30_h264");
  folder.Replace("meta/info.json", "\"fps\": 7,\n    \"features\"",
                 "\"fps\": 7.0001,\n    \"features\"");
  EXPECT_THAT(Load({.path = folder.path(), .tolerance_s = 1e-6, .row_tolerance_s = 1e-3}),
              HasSubstr("but the nearest one is at"));
  EXPECT_THAT(Load({.path = folder.path(), .row_tolerance_s = 1e-6}),
              HasSubstr("dataset.params.row_tolerance_s, or --tolerance"));
  EXPECT_EQ(Load({.path = folder.path(), .tolerance_s = 1e-3}), "no error");
}

// Rewrites a Parquet file with one value of one column changed.
template <class Value>
void ChangeValue(const fs::path& file, const std::string& column, std::int64_t row, Value value) {
  auto source = arrow::io::ReadableFile::Open(file.string()).ValueOrDie();
  auto reader =
      parquet::arrow::OpenFile(std::move(source), arrow::default_memory_pool()).ValueOrDie();
  std::shared_ptr<arrow::Table> table = reader->ReadTable().ValueOrDie();
  table = table->CombineChunks().ValueOrDie();
  const int index = table->schema()->GetFieldIndex(column);
  std::shared_ptr<arrow::Array> values = table->column(index)->chunk(0);
  const bool is_list = values->type_id() == arrow::Type::FIXED_SIZE_LIST;
  std::shared_ptr<arrow::Array> flat = values;
  if (is_list) flat = static_cast<const arrow::FixedSizeListArray&>(*values).values();
  using Traits = arrow::CTypeTraits<Value>;
  typename Traits::BuilderType builder;
  const auto& typed = static_cast<const typename Traits::ArrayType&>(*flat);
  for (std::int64_t i = 0; i < typed.length(); ++i) {
    ASSERT_TRUE(builder.Append(i == row ? value : typed.Value(i)).ok());
  }
  std::shared_ptr<arrow::Array> changed = builder.Finish().ValueOrDie();
  if (is_list) {
    changed = arrow::FixedSizeListArray::FromArrays(changed, values->type()).ValueOrDie();
  }
  table = table
              ->SetColumn(index, table->schema()->field(index),
                          std::make_shared<arrow::ChunkedArray>(changed))
              .ValueOrDie();
  auto sink = arrow::io::FileOutputStream::Open(file.string()).ValueOrDie();
  ASSERT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink).ok());
}

// As LeRobot has them. Its table of episodes lists the tasks of an episode in any order.
TEST(LeRobotTasks, AreThoseOfTheRows) {
  const CopiedFolder folder("v30_hevc");
  const auto task_of = [&](std::int64_t episode) {
    return LeRobotDataset({.path = folder.path()}).Task(episode);
  };
  EXPECT_EQ(task_of(1), "lift the tray");
  const fs::path file = folder.path() / "data/chunk-000/file-000.parquet";
  ChangeValue(file, "task_index", 13, std::int64_t{0});  // its second frame
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(task_of(1), "lift the tray");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("only that of the first frame"));
  ChangeValue(file, "task_index", 12, std::int64_t{0});
  EXPECT_EQ(task_of(1), "push the block");
}

TEST(DamagedLeRobot, ValuesThatCannotBeAreNamed) {
  const char* file = "data/chunk-000/file-000.parquet";  // episodes of 12, 9 and 12 frames
  const auto load = [&](const std::function<void(const fs::path&)>& change) {
    return LoadWith("v30_hevc", [&](const CopiedFolder& f) { change(f.path() / file); });
  };
  EXPECT_EQ(load([](const fs::path& path) { ChangeValue(path, "observation.state", 5, 1.0F); }),
            "no error");
  // `dataset check` finds it, and `dataset trim` leaves its episode out
  EXPECT_EQ(load([](const fs::path& path) {
              ChangeValue(path, "observation.state", 3 * 13 + 2,
                          std::numeric_limits<float>::quiet_NaN());
            }),
            "no error");
  // row 13 is frame 1 of episode 1
  EXPECT_THAT(
      load([](const fs::path& path) { ChangeValue(path, "task_index", 13, std::int64_t{7}); }),
      AllOf(HasSubstr(file), HasSubstr("episode 1, frame 1"),
            HasSubstr("the table of tasks has no task_index 7")));
  EXPECT_THAT(load([](const fs::path& path) { ChangeValue(path, "timestamp", 13, 0.5F); }),
              AllOf(HasSubstr("episode 1, frame 1"), HasSubstr("found 0.500000 s")));
  EXPECT_THAT(
      load([](const fs::path& path) { ChangeValue(path, "frame_index", 13, std::int64_t{9}); }),
      AllOf(HasSubstr("episode 1, frame 9"), HasSubstr("the episode has 9 frames")));
  EXPECT_THAT(
      load([](const fs::path& path) { ChangeValue(path, "episode_index", 13, std::int64_t{-1}); }),
      AllOf(HasSubstr("episode 1 has no frame 1"), HasSubstr(file)));
  EXPECT_THAT(load([](const fs::path& path) {
                ChangeValue(path, "frame_index", 13, std::int64_t{0});
                ChangeValue(path, "timestamp", 13, 0.0F);
              }),
              HasSubstr("episode 1, frame 0: the frame occurs twice"));
}

TEST(DamagedLeRobot, EpisodesThatOverlapAreNamed) {
  const char* file = "meta/episodes/chunk-000/file-000.parquet";  // of 12, 9 and 12 frames, 60 Hz
  const auto load = [&](const std::function<void(const fs::path&)>& change) {
    return LoadWith("v30_hevc", [&](const CopiedFolder& f) { change(f.path() / file); });
  };
  const std::string from = "videos/observation.images.top/from_timestamp";
  EXPECT_THAT(load([&](const fs::path& path) { ChangeValue(path, from, 1, 0.1); }),
              AllOf(HasSubstr("episode 1, frame 0 of 'observation.images.top': begins at 0.100000"),
                    HasSubstr("where episode 0 has its frame 6: the episodes overlap")));
  // half a frame is not an overlap yet, but not the time of the frame either
  EXPECT_THAT(load([&](const fs::path& path) { ChangeValue(path, from, 1, 0.195); }),
              HasSubstr("the tolerance is"));
  const auto with_rows = [&](std::int64_t begin, std::int64_t end) {
    return load([&](const fs::path& path) {
      ChangeValue(path, "dataset_from_index", 1, begin);
      ChangeValue(path, "dataset_to_index", 1, end);
    });
  };
  EXPECT_EQ(with_rows(12, 21), "no error");
  EXPECT_THAT(with_rows(10, 19), HasSubstr("episode 1, frame 0: is in row 10"));
  EXPECT_THAT(with_rows(10, 19), HasSubstr("reach to row 11, so they overlap"));
  EXPECT_THAT(with_rows(13, 22), HasSubstr("the episodes before it end at row 11"));
  EXPECT_THAT(with_rows(10, 21), HasSubstr("episode 1 has 9 frames, but its rows are 10"));
}

TEST(DamagedLeRobot, TruncatedFilesAreNamed) {
  for (const char* file :
       {"meta/info.json", "meta/stats.json", "meta/tasks.parquet",
        "meta/episodes/chunk-000/file-000.parquet", "data/chunk-000/file-000.parquet",
        "videos/observation.images.top/chunk-000/file-000.mp4"}) {
    const CopiedFolder folder("v30_hevc");
    const std::string text = ReadText(folder.path() / file);
    for (const std::size_t part : {0U, 1U, 4U, 7U, 9U}) {
      WriteText(folder.path() / file, text.substr(0, text.size() * part / 10));
      EXPECT_THAT(Load({.path = folder.path()}), HasSubstr(file)) << part;
    }
  }
}

TEST(DamagedLeRobot, AFifoIsRefused) {
  EXPECT_THAT(LoadWith("v30_hevc",
                       [](const CopiedFolder& f) {
                         const fs::path file =
                             f.path() / "videos/observation.images.top/chunk-000/file-000.mp4";
                         fs::remove(file);
                         ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
                       }),
              HasSubstr("expected a regular file, found a named pipe"));
}

// Either an error or data, but no crash, no endless loop and no memory beyond the limit.
TEST(DamagedLeRobot, MutatedFilesGiveAnErrorOrData) {
  constexpr int kMutations = 60;
  RandomStream random(7, StreamId::kPolicyNoise);
  for (const auto& [name, file] : std::vector<std::pair<std::string, std::string>>{
           {"v30_hevc", "meta/info.json"},
           {"v30_hevc", "meta/tasks.parquet"},
           {"v30_hevc", "meta/episodes/chunk-000/file-000.parquet"},
           {"v30_hevc", "data/chunk-000/file-000.parquet"},
           {"v30_images", "data/chunk-000/file-000.parquet"},
           {"v21_av1", "meta/episodes.jsonl"},
           {"v21_av1", "videos/chunk-000/observation.images.top/episode_000000.mp4"},
           {"v30_h264", "videos/observation.images.top/chunk-000/file-000.mp4"},
           {"v30_hevc", "videos/observation.images.top/chunk-000/file-000.mp4"},
           {"v30_av1", "videos/observation.depth/chunk-000/file-000.mp4"}}) {
    const CopiedFolder folder(name);
    const std::string text = ReadText(folder.path() / file);
    int n_errors = 0;
    for (int i = 0; i < kMutations; ++i) {
      std::string changed = text;
      const int n_bytes = 1 + i % 4;
      for (int k = 0; k < n_bytes; ++k) {
        changed[static_cast<std::size_t>(random.UniformInt(
            static_cast<std::uint32_t>(text.size())))] = static_cast<char>(random.UniformInt(256));
      }
      WriteText(folder.path() / file, changed);
      n_errors += Load({.path = folder.path(), .memory_limit_mb = 64.0}) != "no error" ? 1 : 0;
    }
    EXPECT_GT(n_errors, 0) << file;
  }
}

}  // namespace
}  // namespace dp_bench::lerobot::testing
