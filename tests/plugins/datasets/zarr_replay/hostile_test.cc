// Damaged and malicious hierarchies give an Error{kData} that names the file, never a crash, and
// never an allocation whose size a header dictates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dp_bench/error.h"
#include "dp_bench/random.h"
#include "small_replay.h"
#include "support/error_of.h"

namespace dp_bench::zarr_replay::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The error message of loading.
std::string Load(const ZarrFiles& files, const ZarrReplayConfig& config = SmallConfig("")) {
  const TemporaryFolder folder;
  files.WriteFolder(folder.path() / "folder");
  ZarrReplayConfig here = config;
  here.path = folder.path() / "folder";
  try {
    const ZarrReplayDataset dataset(here);
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kData || error.code() == ErrorCode::kConfig)
        << error.what();
    return error.what();
  }
  return "no error";
}

// SmallReplay with one change.
std::string LoadWith(const std::function<void(ZarrFiles*)>& damage) {
  ZarrFiles files = SmallReplay();
  damage(&files);
  return Load(files);
}

std::string LoadWithMetadata(std::string_view from, std::string_view to) {
  return LoadWith([&](ZarrFiles* files) { files->Replace("data/action/.zarray", from, to); });
}

std::string LoadWithEnds(const std::vector<std::int64_t>& ends) {
  return LoadWith([&](ZarrFiles* files) {
    const auto n = static_cast<std::int64_t>(ends.size());
    files->AddArray<std::int64_t>("meta/episode_ends", {{n}, {n}}, ends);
  });
}

TEST(Hostile, AMissingPathNamesTheScriptThatFetches) {
  EXPECT_THAT(
      MessageOf(ErrorCode::kData, [] { ZarrReplayDataset{SmallConfig("no/such/folder.zarr")}; }),
      AllOf(HasSubstr("no/such/folder.zarr"), HasSubstr("scripts/get_data.sh pusht")));
}

TEST(Hostile, AMissingArrayAndAMissingChunkAreNamed) {
  EXPECT_THAT(LoadWith([](ZarrFiles* files) { files->Erase("data/action/.zarray"); }),
              HasSubstr("no array 'data/action'"));
  EXPECT_THAT(LoadWith([](ZarrFiles* files) {
                files->Replace("data/img/.zarray", R"("fill_value":0)", R"("fill_value":null)");
                files->Erase("data/img/1.0.0.0");
              }),
              AllOf(HasSubstr("a chunk of 'data/img' is missing"),
                    HasSubstr("data/img/1.0.0.0 does not exist")));
}

TEST(Hostile, TruncatedChunksAreNamed) {
  for (const std::size_t size : {0, 1, 15, 16, 17, 30}) {
    EXPECT_THAT(LoadWith([&](ZarrFiles* files) { (*files)["data/img/2.0.0.0"].resize(size); }),
                HasSubstr("data/img/2.0.0.0: "))
        << size;
  }
  EXPECT_THAT(LoadWith([](ZarrFiles* files) { (*files)["meta/episode_ends/0"].pop_back(); }),
              HasSubstr("has 23 bytes; an uncompressed chunk has 24"));
  EXPECT_THAT(LoadWith([](ZarrFiles* files) { (*files)["data/action/0.0"].emplace_back(); }),
              HasSubstr("data/action/0.0: byte 12"));
}

TEST(Hostile, ABloscHeaderIsNotBelieved) {
  const auto with_nbytes = [](std::uint32_t nbytes) {
    return LoadWith([nbytes](ZarrFiles* files) {
      std::memcpy((*files)["data/action/0.0"].data() + 4, &nbytes, sizeof(nbytes));
    });
  };
  EXPECT_THAT(with_nbytes(0x7FFFFFFF), HasSubstr("byte 4: the blosc header promises 2147483647"));
  EXPECT_THAT(with_nbytes(31), HasSubstr("byte 4"));
  EXPECT_THAT(with_nbytes(0), HasSubstr("byte 4"));
}

TEST(Hostile, TinyFilesCannotClaimLargeChunks) {
  // header and metadata agree on 2 GB
  const std::string error = LoadWith([](ZarrFiles* files) {
    files->Replace("data/action/.zarray", R"("chunks":[4,2])", R"("chunks": [268435455, 2])");
    const std::uint32_t nbytes = 268435455U * 8U;
    std::memcpy((*files)["data/action/0.0"].data() + 4, &nbytes, sizeof(nbytes));
  });
  EXPECT_THAT(error, HasSubstr("which cannot hold a chunk of 2147483640"));
}

// Flips bits one by one in the headers and at random after them. Anything but a crash is allowed.
TEST(Hostile, FlippedBitsNeverCrash) {
  const TemporaryFolder folder;
  ZarrFiles files = SmallReplay();
  files.WriteFolder(folder.path());
  RandomStream random(1, StreamId::kAugment);
  for (const char* name : {"data/action/0.0", "data/img/0.0.0.0", "data/action/.zarray"}) {
    const Bytes whole = files[name];
    int n_refused = 0;
    for (std::uint32_t i = 0; i < 300; ++i) {
      Bytes damaged = whole;
      const std::uint32_t bit =
          i < 128 ? i : random.UniformInt(static_cast<std::uint32_t>(whole.size() * 8));
      damaged[bit / 8] ^= std::byte{1} << (bit % 8);
      WriteFile(folder.path() / name, damaged);
      try {
        const ZarrReplayDataset dataset(SmallConfig(folder.path()));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kData) << error.what();
        ++n_refused;
      }
    }
    EXPECT_GT(n_refused, 50) << name;
    WriteFile(folder.path() / name, whole);
  }
}

TEST(Hostile, CompressedBombsStopAtTheSizeOfTheChunk) {
  const Bytes zeros(1 << 20);
  for (const Encoding& encoding : {Zlib(), Zstd(), Zstd(false)}) {
    const std::string error = LoadWith([&](ZarrFiles* files) {
      files->AddArray<float>("data/action", {{10, 2}, {10, 2}, encoding}, Count<float>(20));
      (*files)["data/action/0.0"] = encoding.encode(4, zeros);
    });
    EXPECT_THAT(error, HasSubstr("data/action/0.0: ")) << encoding.json;
  }
}

TEST(Hostile, ShortAndGarbledZlibAndZstdAreNamed) {
  for (const Encoding& encoding : {Zlib(), Zstd(), Zstd(false)}) {
    ZarrFiles files = SmallReplay();
    files.AddArray<float>("data/action", {{10, 2}, {10, 2}, encoding}, Count<float>(20));
    ZarrFiles cut = files;
    cut["data/action/0.0"].resize(cut["data/action/0.0"].size() / 2);
    EXPECT_THAT(Load(cut), HasSubstr("data/action/0.0: "));
    ZarrFiles shorter = files;
    shorter["data/action/0.0"] = encoding.encode(4, Bytes(76));
    EXPECT_THAT(Load(shorter), HasSubstr("data/action/0.0: "));
    ZarrFiles garbled = files;
    garbled["data/action/0.0"] = ToBytes("garbage that is no compressed chunk at all");
    EXPECT_THAT(Load(garbled), HasSubstr("data/action/0.0: "));
  }
}

TEST(Hostile, ImpossibleShapesAreRefusedBeforeMemoryIsTaken) {
  for (const char* shape :
       {"[9223372036854775807, 2]", "[9223372036854775808, 2]", "[4611686018427387904, 4]",
        "[-1, 2]", "[10.5, 2]", "[\"10\", 2]", "10", "[1e30, 2]", "[10, 2, 1, 1, 1, 1, 1, 1, 1]",
        "[10]", "[18446744073709551616, 2]"}) {
    EXPECT_THAT(LoadWithMetadata(R"("shape":[10,2])", std::string(R"("shape": )") + shape),
                HasSubstr("data/action/.zarray: "))
        << shape;
  }
  for (const char* chunks : {"[0, 2]", "[4611686018427387904, 2]", "[1073741824, 2]", "[4]"}) {
    EXPECT_THAT(LoadWithMetadata(R"("chunks":[4,2])", std::string(R"("chunks": )") + chunks),
                HasSubstr("data/action/.zarray: "))
        << chunks;
  }
}

TEST(Hostile, APromiseOfCountlessChunksCostsNothing) {
  EXPECT_THAT(LoadWithMetadata(R"("shape":[10,2])", R"("shape": [1000000000000000, 2])"),
              HasSubstr("data/action/262159.0 does not exist, as are 262156 before it"));
}

TEST(Hostile, LayoutsThatAreNotReadAreNamed) {
  for (const char* dtype : {"\"|O\"", "\"<U8\"", "\"<c8\"", "[[\"a\", \"<f4\"]]", "7"}) {
    EXPECT_THAT(LoadWithMetadata(R"("<f4")", dtype), HasSubstr("data/action: dtype is ")) << dtype;
  }
  EXPECT_THAT(LoadWithMetadata(R"("shape":[10,2])", R"("shape":[])"),
              HasSubstr("data/action: shape is [], a single value"));
  EXPECT_THAT(LoadWithMetadata(R"("order":"C")", R"("order": "A")"), HasSubstr("order is \"A\""));
  EXPECT_THAT(LoadWithMetadata(R"("filters":null)", R"("filters": [{"id": "delta"}])"),
              HasSubstr("filters is "));
  EXPECT_THAT(LoadWithMetadata(R"("zarr_format":2)", R"("zarr_format": 3)"),
              HasSubstr("zarr_format is 3"));
  EXPECT_THAT(LoadWithMetadata(R"("id":"blosc")", R"("id": "imagecodecs_avif")"),
              HasSubstr("compressor is \"imagecodecs_avif\""));
  EXPECT_THAT(LoadWithMetadata(R"("id":"blosc")", R"("id": "imagecodecs_jpegxl")"),
              HasSubstr("chunks of images are [4, 2] of float32"));
  EXPECT_THAT(LoadWithMetadata(R"("order":"C",)", ""), HasSubstr("order is missing"));
}

TEST(Hostile, JsonGarbageIsNamed) {
  const auto with_json = [](std::string_view text) {
    return LoadWith([text](ZarrFiles* files) { (*files)["data/action/.zarray"] = ToBytes(text); });
  };
  for (const char* text : {"", "{", "null", "[]", "\xff\xfe", "{\"shape\": }", "nan"}) {
    EXPECT_THAT(with_json(text), HasSubstr("data/action/.zarray: ")) << text;
  }
  EXPECT_THAT(with_json(std::string(100000, '[')), HasSubstr("nested deeper than"));
  std::string objects;
  for (int i = 0; i < 50000; ++i) objects += R"({"a":)";
  EXPECT_THAT(with_json(objects), HasSubstr("nested deeper than"));
  EXPECT_THAT(with_json(std::string((256U << 10) + 1, ' ')), HasSubstr("at most 262144"));
}

ZarrFiles SmallShards() {
  ZarrFiles files = SmallReplay();
  ArrayLayout layout{.shape = {10, 2}, .chunks = {2, 2}, .encoding = Zstd()};
  layout.is_version_3 = layout.has_checksums = true;
  layout.shards = {4, 2};
  files.Erase("data/action/.zarray");
  files.AddArray<float>("data/action", layout, Count<float>(20));
  return files;
}

TEST(Hostile, AShardIsNotBelieved) {
  EXPECT_EQ(Load(SmallShards()), "no error");
  const auto with = [](const std::function<void(Bytes*)>& damage) {
    ZarrFiles files = SmallShards();
    damage(&files["data/action/c/1/0"]);
    return Load(files);
  };
  EXPECT_THAT(with([](Bytes* shard) { shard->resize(35); }),
              HasSubstr("data/action/c/1/0: has 35 bytes; the index of 2 chunks alone has 36"));
  EXPECT_THAT(with([](Bytes* shard) { shard->back() ^= std::byte{1}; }),
              HasSubstr("data/action/c/1/0: the CRC-32C of 32 bytes does not match"));
  EXPECT_THAT(with([](Bytes* shard) { shard->front() ^= std::byte{1}; }),
              HasSubstr("data/action/c/1/0: the CRC-32C of "));
}

TEST(Hostile, AnIndexCannotLeadOutsideItsShard) {
  const auto with_entry = [](std::uint64_t offset, std::uint64_t size) {
    ZarrFiles files = SmallShards();
    files.Replace(
        "data/action/zarr.json",
        R"("index_codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])",
        R"("index_codecs":[{"name":"bytes"}])");
    for (const char* shard : {"0/0", "1/0", "2/0"}) {
      Bytes& bytes = files[std::string("data/action/c/") + shard];
      bytes.resize(bytes.size() - 4);
    }
    Bytes& bytes = files["data/action/c/0/0"];
    const std::uint64_t entry[] = {offset, size};
    std::memcpy(bytes.data() + bytes.size() - 32, entry, sizeof(entry));
    return Load(files);
  };
  const std::uint64_t most = ~std::uint64_t{0};
  EXPECT_EQ(with_entry(most, most), "no error") << "not stored";
  for (const auto& [offset, size] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {most, 8}, {0, most}, {1000, 1}, {8, most - 4}, {0, 1000}}) {
    EXPECT_THAT(with_entry(offset, size), HasSubstr("the index says that chunk 0 has "))
        << offset << " " << size;
  }
}

// 32 MB of zeros in 32 kB, which become 128 MB of float32.
ZarrFiles Bomb() {
  constexpr std::int64_t kSteps = 10;
  constexpr std::int64_t kDims = std::int64_t{32} << 20;
  ZarrFiles files = SmallReplay();
  files.AddArray<std::uint8_t>("data/state", {{kSteps, kDims / kSteps}, {kSteps, kDims}, Zlib()},
                               std::vector<std::uint8_t>(kSteps * (kDims / kSteps)));
  return files;
}

TEST(Hostile, TheLimitHoldsForWhatASmallFileDecodesTo) {
  ZarrReplayConfig config = SmallConfig("");
  config.memory_limit_mb = 64;
  EXPECT_THAT(Load(Bomb(), config), AllOf(HasSubstr("dataset.params.memory_limit_mb is 64, but "),
                                          HasSubstr("data/state takes "), HasSubstr(" or more")));
}

TEST(Hostile, TheLimitHoldsInsideAZipArchiveAndForEpisodeEnds) {
  const TemporaryFolder folder;
  ZarrFiles files = SmallReplay();
  files.AddArray<std::int32_t>("meta/episode_ends", {{3}, {std::int64_t{20} << 20}, Zlib()},
                               {4, 9, 10});
  files.WriteZip(folder.path() / "a.zip", /*deflate=*/true);
  ZarrReplayConfig config = SmallConfig(folder.path() / "a.zip");
  config.memory_limit_mb = 32;
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { ZarrReplayDataset{config}; }),
              AllOf(HasSubstr("memory_limit_mb is 32, but "), HasSubstr("meta/episode_ends")));
  config.memory_limit_mb = 128;
  EXPECT_EQ(ZarrReplayDataset(config).episode_ends().size(), 3);
}

TEST(Hostile, AttributesTakeNoMoreThanTheLimit) {
  ZarrReplayConfig config = SmallConfig("");
  config.memory_limit_mb = 1;
  ZarrFiles files = SmallReplay();
  files[".zattrs"] = ToBytes("{\"fps\": 5}" + std::string(std::size_t{18} << 20, ' '));
  EXPECT_THAT(Load(files, config), AllOf(HasSubstr(".zattrs has "), HasSubstr("at most")));
}

TEST(Hostile, TooManyArraysAreRefused) {
  ZarrFiles files = SmallReplay();
  for (int i = 0; i < 1000; ++i) files["data/a" + std::to_string(i) + "/.zarray"] = {};
  ZarrReplayConfig config = SmallConfig("");
  config.keys.clear();
  EXPECT_THAT(Load(files, config), HasSubstr("holds 1003 arrays; at most 1000 are read"));
}

TEST(Hostile, EpisodeEndsMustIncreaseToTheLastStep) {
  EXPECT_THAT(LoadWithEnds({4, 4, 10}), HasSubstr("episode 1 ends at step 4, but begins at 4"));
  EXPECT_THAT(LoadWithEnds({9, 4, 10}), HasSubstr("episode 1 ends at step 4, but begins at 9"));
  EXPECT_THAT(LoadWithEnds({0, 4, 10}), HasSubstr("episode 0 ends at step 0"));
  EXPECT_THAT(LoadWithEnds({-4, 4, 10}), HasSubstr("episode 0 ends at step -4"));
  EXPECT_THAT(LoadWithEnds({4, 9, 11}), HasSubstr("the episodes end at step 11"));
  EXPECT_THAT(LoadWithEnds({4, 9}), HasSubstr("the episodes end at step 9"));
  EXPECT_THAT(LoadWith([](ZarrFiles* files) {
                files->AddArray<float>("meta/episode_ends", {{3}, {3}}, {4, 9, 10});
              }),
              HasSubstr("episode ends are integers"));
  EXPECT_THAT(LoadWith([](ZarrFiles* files) {
                files->AddArray<std::int64_t>("meta/episode_ends", {{3, 1}, {3, 1}}, {4, 9, 10});
              }),
              HasSubstr("expected the end of each episode"));
}

TEST(Hostile, ArraysOfDifferentLengthAreNamed) {
  EXPECT_THAT(LoadWith([](ZarrFiles* files) {
                files->AddArray<float>("data/state", {{9, 5}, {9, 5}}, Count<float>(45));
              }),
              AllOf(HasSubstr("data/state has shape [9, 5]"), HasSubstr("end at step 10")));
}

TEST(Hostile, ImagesThatAreNotBytesNameStepAndValue) {
  const auto with_pixel = [](float value) {
    return LoadWith([value](ZarrFiles* files) {
      std::vector<float> pixels(480, 7.0F);
      pixels[7 * 48 + 3] = value;
      files->AddArray<float>("data/img", {{10, 4, 4, 3}, {4, 4, 4, 3}, Blosc("lz4", 1)}, pixels);
    });
  };
  EXPECT_THAT(with_pixel(0.5F), HasSubstr("data/img holds 0.5 at step 7"));
  EXPECT_THAT(with_pixel(256.0F), HasSubstr("holds 256 at step 7"));
  EXPECT_THAT(with_pixel(-1.0F), HasSubstr("holds -1 at step 7"));
  EXPECT_THAT(with_pixel(1e30F), HasSubstr("holds 1e+30 at step 7"));
  EXPECT_THAT(with_pixel(std::nanf("")), HasSubstr("holds nan at step 7"));
  EXPECT_THAT(with_pixel(-std::numeric_limits<float>::infinity()),
              HasSubstr("holds -inf at step 7"));
  EXPECT_EQ(with_pixel(255.0F), "no error");
}

TEST(Hostile, IntegersThatFloat32WouldRoundNameKeyStepAndValue) {
  const auto with_state = [](auto value) {
    return LoadWith([value](ZarrFiles* files) {
      std::vector<decltype(value)> state(50, 7);
      state[7 * 5 + 1] = value;
      files->AddArray<decltype(value)>("data/state", {{10, 5}, {4, 5}, Blosc("lz4", 1)}, state);
    });
  };
  EXPECT_THAT(with_state(std::int64_t{1732665635123456789}),
              AllOf(HasSubstr("data/state, step 7"), HasSubstr("found 1732665635123456789"),
                    HasSubstr("in the dataset key 'agent_pos'"), HasSubstr("dataset.params.keys")));
  EXPECT_THAT(with_state(std::int32_t{-16777217}), HasSubstr("found -16777217"));
  EXPECT_EQ(with_state(std::int32_t{16777216}), "no error");
  EXPECT_EQ(with_state(16777217.0), "no error");  // float64 is rounded
}

TEST(Hostile, OfSeveralFaultsTheFirstChunkIsNamed) {
  for (int i = 0; i < 20; ++i) {
    const std::string error = LoadWith([](ZarrFiles* files) {
      files->AddArray<float>("data/img", {{10, 4, 4, 3}, {1, 4, 4, 3}},
                             std::vector<float>(480, -1.0F));
    });
    EXPECT_THAT(error, HasSubstr("at step 0;"));
  }
}

TEST(Hostile, KeysThatDoNotFitTheirArrayAreNamed) {
  const auto with_key = [](const std::string& name, const KeyConfig& key) {
    ZarrReplayConfig config = SmallConfig("");
    config.keys[name] = key;
    return Load(SmallReplay(), config);
  };
  EXPECT_THAT(with_key("x", {.source = "../data/action"}),
              HasSubstr("cannot leave the zarr folder"));
  EXPECT_THAT(with_key("x", {.source = "data/none"}), HasSubstr("no array 'data/none'"));
  EXPECT_THAT(with_key("x", {.source = "data/state", .begin = 3, .end = 3}),
              HasSubstr("elements 3 to 3"));
  EXPECT_THAT(with_key("x", {.source = "data/state", .begin = -1}), HasSubstr("elements -1 to 5"));
  EXPECT_THAT(with_key("x", {.source = "data/state", .end = 6}), HasSubstr("elements 0 to 6"));
  EXPECT_THAT(with_key("x", {.source = "data/state", .type = KeyType::kRgb}),
              HasSubstr("an rgb key"));
  EXPECT_THAT(with_key("x", {.source = "data/img", .type = KeyType::kDepth}),
              HasSubstr("a depth key"));
  EXPECT_THAT(with_key("x", {.source = "data/action", .type = KeyType::kDepth}),
              HasSubstr("a depth key"));
  EXPECT_THAT(with_key("action", {.source = "data/img"}),
              HasSubstr("the action is a low_dim array"));
}

TEST(Hostile, ParamsWithoutAnActionAreRefused) {
  const Config params = Config::FromJson(R"({"path": "x.zarr", "keys": {}})");
  EXPECT_THROW(ZarrReplayConfig::FromConfig(params), Error);
}

}  // namespace
}  // namespace dp_bench::zarr_replay::testing
