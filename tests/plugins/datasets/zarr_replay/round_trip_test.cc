// Data written through c-blosc, zlib, zstd and libzip is read back unchanged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dp_bench/error.h"
#include "zarr_array.h"
#include "zarr_files.h"

namespace dp_bench::zarr_replay::testing {
namespace {

using ::testing::ElementsAre;

// Writes a single array and loads it.
template <class T, class Out>
std::vector<Out> RoundTrip(const ArrayLayout& layout, const std::vector<T>& values, Target target,
                           int n_threads = 2) {
  const TempFolder folder;
  ZarrFiles files;
  files.AddArray<T>("a", layout, values);
  files.WriteFolder(folder.path());
  const auto store = OpenStore(folder.path());
  const ZarrArray array(*store, "a");
  std::vector<Out> out(static_cast<std::size_t>(array.num_elements()));
  array.Load(target, n_threads, std::as_writable_bytes(std::span(out)));
  return out;
}

TEST(RoundTrip, EveryBloscCodecShuffleAndLevel) {
  const std::vector<float> values = Count<float>(1000 * 7);
  for (const char* codec : {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"}) {
    for (const int shuffle : {0, 1, 2}) {
      for (const int level : {0, 1, 9}) {
        const ArrayLayout layout{{1000, 7}, {300, 7}, Blosc(codec, shuffle, level)};
        EXPECT_EQ((RoundTrip<float, float>(layout, values, Target::kFloat32)), values)
            << codec << " shuffle " << shuffle << " level " << level;
      }
    }
  }
}

TEST(RoundTrip, RawZlibAndZstd) {
  const std::vector<float> values = Count<float>(1000 * 7);
  for (const Encoding& encoding : {Raw(), Zlib(1), Zlib(9), Zstd(), Zstd(false)}) {
    const ArrayLayout layout{{1000, 7}, {300, 7}, encoding};
    EXPECT_EQ((RoundTrip<float, float>(layout, values, Target::kFloat32)), values) << encoding.json;
  }
}

TEST(RoundTrip, EveryDTypeThroughEveryFamilyOfCodecs) {
  const std::vector<float> wanted = Count<float>(60);
  for (const Encoding& encoding :
       {Raw(), Zlib(), Zstd(), Blosc("lz4", 1), Blosc("zstd", 2), Blosc("blosclz", 0)}) {
    const ArrayLayout layout{{20, 3}, {7, 3}, encoding};
    const auto check = [&]<class T>(T) {
      EXPECT_EQ((RoundTrip<T, float>(layout, Count<T>(60), Target::kFloat32)), wanted)
          << encoding.json << " " << Name(DTypeOf<T>::value);
    };
    check(std::uint8_t{});
    check(std::uint16_t{});
    check(std::int32_t{});
    check(std::int64_t{});
    check(float{});
    check(double{});
  }
}

TEST(RoundTrip, ChunksMayCutEveryAxis) {
  const Shape shape = {5, 4, 6, 3};
  const std::vector<float> values = Count<float>(NumElements(shape));
  for (const Shape& chunks : {Shape{5, 4, 6, 3}, Shape{2, 4, 6, 3}, Shape{2, 3, 6, 3},
                              Shape{2, 3, 4, 2}, Shape{1, 1, 1, 1}, Shape{9, 9, 9, 9},
                              Shape{5, 2, 6, 3}, Shape{5, 4, 6, 2}, Shape{3, 9, 6, 3}}) {
    for (const char separator : {'.', '/'}) {
      for (const int n_threads : {1, 4}) {
        const ArrayLayout layout{shape, chunks, Zstd(), separator};
        EXPECT_EQ((RoundTrip<float, float>(layout, values, Target::kFloat32, n_threads)), values)
            << ToString(chunks) << separator << n_threads;
      }
    }
  }
}

TEST(RoundTrip, ImagesBecomeBytesFromFloatAndFromBytes) {
  const std::vector<std::uint8_t> pixels = Count<std::uint8_t>(3 * 100 * 100 * 3);
  const ArrayLayout layout{{3, 100, 100, 3}, {2, 100, 100, 3}, Blosc("zstd", 2)};
  const std::vector<float> as_float(pixels.begin(), pixels.end());
  EXPECT_EQ((RoundTrip<float, std::uint8_t>(layout, as_float, Target::kImage)), pixels);
  EXPECT_EQ((RoundTrip<std::uint8_t, std::uint8_t>(layout, pixels, Target::kImage)), pixels);
}

TEST(RoundTrip, DepthStaysAsItIs) {
  const std::vector<std::uint16_t> depth = Count<std::uint16_t>(3 * 100 * 100);
  const ArrayLayout layout{{3, 100, 100, 1}, {2, 100, 100, 1}, Blosc("zstd", 1)};
  EXPECT_EQ((RoundTrip<std::uint16_t, std::uint16_t>(layout, depth, Target::kDepth)), depth);
}

void ExpectSmallReplay(const Dataset& dataset) {
  EXPECT_THAT(dataset.episode_ends(), ElementsAre(4, 9, 10));
  EXPECT_EQ(ReadAll<float>(dataset, "action"), Count<float>(20));
  const std::vector<float> agent_pos = ReadAll<float>(dataset, "agent_pos");
  ASSERT_EQ(agent_pos.size(), 20U);
  for (std::size_t step = 0; step < 10; ++step) {
    EXPECT_EQ(agent_pos[2 * step], 5.0F * static_cast<float>(step));
    EXPECT_EQ(agent_pos[2 * step + 1], 5.0F * static_cast<float>(step) + 1.0F);
  }
  EXPECT_EQ(ReadAll<std::uint8_t>(dataset, "image"), Count<std::uint8_t>(480));
  EXPECT_EQ(dataset.spec().keys[2].shape, (Shape{3, 4, 4}));
}

TEST(ZarrReplay, ReadsAFolder) {
  const TempFolder folder;
  SmallReplay().WriteFolder(folder.path());
  ExpectSmallReplay(ZarrReplayDataset(SmallConfig(folder.path())));
}

TEST(ZarrReplay, ReadsAZipArchive) {
  for (const bool deflate : {false, true}) {
    const TempFolder folder;
    SmallReplay().WriteZip(folder.path() / "small.zarr.zip", deflate);
    ExpectSmallReplay(ZarrReplayDataset(SmallConfig(folder.path() / "small.zarr.zip")));
  }
}

TEST(ZarrReplay, ShapesFollowTheArrays) {
  const TempFolder folder;
  ZarrFiles files = SmallReplay();
  files.AddArray<float>("data/keypoint", {{10, 9, 2}, {10, 9, 2}}, Count<float>(180));
  files.AddArray<float>("data/reward", {{10}, {10}}, Count<float>(10));
  files.WriteFolder(folder.path());
  ZarrReplayConfig config = SmallConfig(folder.path());
  config.keys["keypoint"] = {.array = "data/keypoint"};
  config.keys["last_point"] = {.array = "data/keypoint", .begin = 16};
  config.keys["reward"] = {.array = "data/reward"};
  const ZarrReplayDataset dataset(config);
  const auto shape = [&dataset](const char* key) {
    return dataset.spec().keys[static_cast<std::size_t>(dataset.KeyIndex(key))].shape;
  };
  EXPECT_EQ(shape("keypoint"), (Shape{9, 2}));
  EXPECT_EQ(shape("last_point"), (Shape{2}));
  EXPECT_EQ(shape("reward"), (Shape{1}));
  const std::vector<float> last = ReadAll<float>(dataset, "last_point");
  EXPECT_EQ(last[2], 34.0F) << "step 1: 18 + 16";
}

TEST(ZarrReplay, ReadsItsParams) {
  const TempFolder folder;
  SmallReplay().WriteFolder(folder.path());
  const Config params =
      Config::FromJson(R"({"path": ")" + folder.path().string() +
                       R"(", "fps": 20, "keys": {"action": {"array": "data/action"},
          "agent_pos": {"array": "data/state", "begin": 0, "end": 2},
          "image": {"array": "data/img", "type": "rgb"}}})");
  const auto dataset = ZarrReplayDataset::Create(params);
  params.RejectUnread();
  EXPECT_EQ(dataset->spec().fps, 20.0);
  ExpectSmallReplay(*dataset);
}

}  // namespace
}  // namespace dp_bench::zarr_replay::testing
