// Arrays written through c-blosc, zlib, zstd and libzip come back as they were, whole or in part.
#include "data/zarr/array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/temporary_folder.h"
#include "dp_bench/random.h"
#include "support/zarr_files.h"

namespace dp_bench::zarr {
namespace {

// Calls use(array) with an array that is alone in a folder.
template <class T, class Use>
void WithArray(const ArrayLayout& layout, const std::vector<T>& values, const Use& use) {
  const core::TemporaryFolder folder;
  ZarrFiles files;
  files.AddArray<T>("a", layout, values);
  files.WriteFolder(folder.path());
  const auto store = OpenStore(folder.path());
  use(ZarrArray(*store, "a"));
}

// Writes an array and loads it.
template <class T, class Out>
std::vector<Out> RoundTrip(const ArrayLayout& layout, const std::vector<T>& values, DType target,
                           int n_threads = 2) {
  std::vector<Out> out(values.size());
  WithArray(layout, values, [&](const ZarrArray& array) {
    array.Load(target, n_threads, std::as_writable_bytes(std::span(out)));
  });
  return out;
}

// Ways to cut an array of kCutShape into chunks.
const Shape kCutShape = {5, 4, 6, 3};
const std::vector<Shape> kCuts = {{5, 4, 6, 3}, {2, 4, 6, 3}, {2, 3, 6, 3},
                                  {2, 3, 4, 2}, {1, 1, 1, 1}, {9, 9, 9, 9},
                                  {5, 2, 6, 3}, {5, 4, 6, 2}, {3, 9, 6, 3}};

TEST(RoundTrip, EveryBloscCodecShuffleAndLevel) {
  const std::vector<float> values = Count<float>(1000 * 7);
  for (const char* codec : {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"}) {
    for (const int shuffle : {0, 1, 2}) {
      for (const int level : {0, 1, 9}) {
        const ArrayLayout layout{{1000, 7}, {300, 7}, Blosc(codec, shuffle, level)};
        EXPECT_EQ((RoundTrip<float, float>(layout, values, DType::kFloat32)), values)
            << codec << " shuffle " << shuffle << " level " << level;
      }
    }
  }
}

TEST(RoundTrip, RawZlibAndZstd) {
  const std::vector<float> values = Count<float>(1000 * 7);
  for (const Encoding& encoding : {Raw(), Zlib(1), Zlib(9), Zstd(), Zstd(false)}) {
    const ArrayLayout layout{{1000, 7}, {300, 7}, encoding};
    EXPECT_EQ((RoundTrip<float, float>(layout, values, DType::kFloat32)), values) << encoding.json;
  }
}

TEST(RoundTrip, EveryDTypeThroughEveryFamilyOfCodecs) {
  const std::vector<float> wanted = Count<float>(60);
  for (const Encoding& encoding :
       {Raw(), Zlib(), Zstd(), Blosc("lz4", 1), Blosc("zstd", 2), Blosc("blosclz", 0)}) {
    const ArrayLayout layout{{20, 3}, {7, 3}, encoding};
    const auto check = [&]<class T>(T) {
      EXPECT_EQ((RoundTrip<T, float>(layout, Count<T>(60), DType::kFloat32)), wanted)
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
  const std::vector<float> values = Count<float>(NumElements(kCutShape));
  for (const Shape& chunks : kCuts) {
    for (const char separator : {'.', '/'}) {
      for (const int n_threads : {1, 4}) {
        const ArrayLayout layout{kCutShape, chunks, Zstd(), separator};
        EXPECT_EQ((RoundTrip<float, float>(layout, values, DType::kFloat32, n_threads)), values)
            << ToString(chunks) << separator << n_threads;
      }
    }
  }
}

// Every way in which chunks are stored, over a grid that cuts every axis unevenly.
void ExpectEveryLayout(const std::function<void(const ArrayLayout&)>& check) {
  const Encoding gzip = {.json = {{"id", "gzip"}}, .encode = Zlib().encode};
  for (const Encoding& encoding : {Raw(), gzip, Blosc("lz4", 1)}) {
    for (const Shape& order : {Shape{}, Shape{3, 2, 1, 0}}) {
      for (const bool is_big_endian : {false, true}) {
        ArrayLayout layout{.shape = kCutShape, .chunks = {2, 2, 3, 3}, .encoding = encoding};
        layout.order = order;
        layout.is_big_endian = is_big_endian;
        check(layout);
        layout.is_version_3 = true;
        if (!order.empty()) layout.order = {2, 0, 3, 1};
        check(layout);
        layout.has_checksums = true;
        check(layout);
        layout.shards = {4, 4, 3, 6};
        check(layout);
        layout.is_index_first = true;
        check(layout);
        layout.shards = layout.chunks;
        check(layout);
      }
    }
  }
}

TEST(RoundTrip, EveryLayoutOfBothVersions) {
  const std::vector<float> values = Count<float>(5 * 4 * 6 * 3);
  ExpectEveryLayout([&](const ArrayLayout& layout) {
    EXPECT_EQ((RoundTrip<float, float>(layout, values, DType::kFloat32)), values)
        << layout.encoding.json << " version 3 " << layout.is_version_3 << " shards "
        << ToString(layout.shards) << " order " << ToString(layout.order);
  });
}

TEST(RoundTrip, ChunksThatAreNotStoredHoldTheFillValue) {
  std::vector<float> values = Count<float>(5 * 4 * 6 * 3);
  std::fill(values.begin() + 60, values.begin() + 300, 2.5F);
  ExpectEveryLayout([&](ArrayLayout layout) {
    layout.left_out = layout.fill_value = 2.5;
    WithArray(layout, values, [](const ZarrArray& array) {
      EXPECT_GT(array.num_missing(), 0);
      EXPECT_LT(array.num_missing(), array.num_chunks());
    });
    EXPECT_EQ((RoundTrip<float, float>(layout, values, DType::kFloat32)), values);
  });
}

TEST(RoundTrip, AnArrayOfFillValuesAlone) {
  for (const bool is_version_3 : {false, true}) {
    ArrayLayout layout{.shape = {9, 2}, .chunks = {4, 2}};
    layout.is_version_3 = is_version_3;
    layout.left_out = layout.fill_value = 7;
    const std::vector<std::uint8_t> values(18, 7);
    EXPECT_EQ((RoundTrip<std::uint8_t, float>(layout, values, DType::kFloat32)),
              std::vector<float>(18, 7.0F));
  }
}

TEST(RoundTrip, ImagesBecomeBytesFromFloatAndFromBytes) {
  const std::vector<std::uint8_t> pixels = Count<std::uint8_t>(3 * 100 * 100 * 3);
  const ArrayLayout layout{{3, 100, 100, 3}, {2, 100, 100, 3}, Blosc("zstd", 2)};
  const std::vector<float> as_float(pixels.begin(), pixels.end());
  EXPECT_EQ((RoundTrip<float, std::uint8_t>(layout, as_float, DType::kUInt8)), pixels);
  EXPECT_EQ((RoundTrip<std::uint8_t, std::uint8_t>(layout, pixels, DType::kUInt8)), pixels);
}

TEST(RoundTrip, DepthStaysAsItIs) {
  const std::vector<std::uint16_t> depth = Count<std::uint16_t>(3 * 100 * 100);
  const ArrayLayout layout{{3, 100, 100, 1}, {2, 100, 100, 1}, Blosc("zstd", 1)};
  EXPECT_EQ((RoundTrip<std::uint16_t, std::uint16_t>(layout, depth, DType::kUInt16)), depth);
}

// Every range of steps, read through a cache of `n_chunks` chunks.
void ExpectReadsAsLoaded(const ZarrArray& array, DType target, std::size_t n_chunks) {
  const auto step_bytes = static_cast<std::size_t>(array.step_elements()) * SizeOf(target);
  Bytes loaded(static_cast<std::size_t>(array.num_steps()) * step_bytes);
  array.Load(target, 1, loaded);
  reader::ChunkCache cache(n_chunks * array.chunk_bytes());
  for (std::int64_t begin = 0; begin < array.num_steps(); ++begin) {
    for (std::int64_t end = begin + 1; end <= array.num_steps(); ++end) {
      Bytes read(static_cast<std::size_t>(end - begin) * step_bytes);
      array.ReadSteps(begin, end, target, &cache, read);
      const auto from = loaded.begin() + begin * static_cast<std::int64_t>(step_bytes);
      ASSERT_TRUE(std::equal(read.begin(), read.end(), from)) << begin << " to " << end;
      ASSERT_LE(cache.bytes(), cache.limit());
    }
  }
}

template <class T>
void ExpectReadsAsLoaded(const ArrayLayout& layout, const std::vector<T>& values, DType target) {
  SCOPED_TRACE(ToString(layout.chunks));
  WithArray(layout, values, [target](const ZarrArray& array) {
    for (const std::size_t n_chunks : {1, 3}) ExpectReadsAsLoaded(array, target, n_chunks);
  });
}

TEST(ReadSteps, ChunksMayCutEveryAxis) {
  const std::vector<float> values = Count<float>(NumElements(kCutShape));
  for (const Shape& chunks : kCuts) {
    for (const char separator : {'.', '/'}) {
      ExpectReadsAsLoaded<float>({kCutShape, chunks, Zstd(), separator}, values, DType::kFloat32);
    }
  }
}

TEST(ReadSteps, EveryLayoutAndFillValuesAsTheyAreLoaded) {
  std::vector<float> values = Count<float>(5 * 4 * 6 * 3);
  std::fill(values.begin() + 60, values.begin() + 300, 2.5F);
  ExpectEveryLayout([&](ArrayLayout layout) {
    if (layout.encoding.json.is_null()) {
      ExpectReadsAsLoaded<float>(layout, values, DType::kFloat32);
      layout.left_out = layout.fill_value = 2.5;
    }
    ExpectReadsAsLoaded<float>(layout, values, DType::kFloat32);
  });
}

TEST(ReadSteps, EveryImageBecomesWhatItIsLoadedAs) {
  const std::vector<std::uint8_t> pixels = Count<std::uint8_t>(9 * 5 * 7 * 3);
  const std::vector<float> as_float(pixels.begin(), pixels.end());
  const std::vector<std::uint16_t> depth = Count<std::uint16_t>(9 * 50 * 70);
  const Encoding blosc = Blosc("zstd", 2);
  for (const Shape& chunks : {Shape{1, 5, 7, 3}, Shape{4, 5, 7, 3}, Shape{4, 2, 4, 3}}) {
    const ArrayLayout layout{{9, 5, 7, 3}, chunks, blosc};
    ExpectReadsAsLoaded<std::uint8_t>(layout, pixels, DType::kUInt8);
    ExpectReadsAsLoaded<float>(layout, as_float, DType::kUInt8);
  }
  for (const Shape& chunks : {Shape{1, 50, 70}, Shape{4, 50, 70}, Shape{2, 30, 70}}) {
    ExpectReadsAsLoaded<std::uint16_t>({{9, 50, 70}, chunks, blosc}, depth, DType::kUInt16);
  }
}

TEST(ReadSteps, ReadsTheTinyReplay) {
  const auto store = OpenStore(DPB_SOURCE_DIR "/tests/data/tiny_replay.zarr");
  ExpectReadsAsLoaded(ZarrArray(*store, "data/img"), DType::kUInt8, 1);
  ExpectReadsAsLoaded(ZarrArray(*store, "data/keypoint"), DType::kFloat32, 2);
}

TEST(ReadSteps, ManyThreadsStayWithinTheLimit) {
  const std::vector<std::uint8_t> pixels = Count<std::uint8_t>(40 * 48);
  WithArray({{40, 4, 4, 3}, {3, 2, 4, 3}, Zlib()}, pixels, [&](const ZarrArray& array) {
    for (const std::size_t n_chunks : {1, 2, 7}) {
      reader::ChunkCache cache(n_chunks * array.chunk_bytes());
      std::vector<std::jthread> threads;
      for (std::uint64_t thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
          RandomStream random(thread, StreamId::kAugment);
          for (int i = 0; i < 300; ++i) {
            const std::int64_t begin = random.UniformInt(40);
            const std::int64_t end = std::min<std::int64_t>(40, begin + 1 + random.UniformInt(5));
            std::vector<std::uint8_t> read(static_cast<std::size_t>(end - begin) * 48);
            array.ReadSteps(begin, end, DType::kUInt8, &cache,
                            std::as_writable_bytes(std::span(read)));
            EXPECT_TRUE(std::equal(read.begin(), read.end(), pixels.begin() + begin * 48));
            EXPECT_LE(cache.bytes(), cache.limit());
          }
        });
      }
    }
  });
}

}  // namespace
}  // namespace dp_bench::zarr
