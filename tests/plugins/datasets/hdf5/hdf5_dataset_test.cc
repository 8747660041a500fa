// Keys, the memory limit, and files that are damaged or refer to other files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "data/hdf5/h5_file.h"
#include "small_hdf5.h"

namespace dp_bench::hdf5::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Hdf5Files : public Hdf5FileTest {
 protected:
  std::string ErrorAfter(const Change& change, ErrorCode code = ErrorCode::kData) const {
    Write(2, change);
    return Refusal(code);
  }

  static void Unlink(FileInProgress* file, const char* path) {
    H5Ldelete(file->id(), path, H5P_DEFAULT);
  }
};

TEST(Hdf5Names, NumbersInNamesAreComparedAsNumbers) {
  EXPECT_TRUE(NaturalLess("demo_2", "demo_10"));
  EXPECT_FALSE(NaturalLess("demo_10", "demo_2"));
  EXPECT_TRUE(NaturalLess("a", "b"));
  EXPECT_TRUE(NaturalLess("demo", "demo_1"));
  EXPECT_NE(NaturalLess("demo_1", "demo_01"), NaturalLess("demo_01", "demo_1"));
  EXPECT_FALSE(NaturalLess("demo_1", "demo_1"));
}

TEST(Hdf5Keys, KeysNameArraysAndPartsOfThem) {
  const Hdf5Dataset dataset({.path = SmallData("robomimic.hdf5"),
                             .keys = {{"action", {.source = "actions", .begin = 1}},
                                      {"where", {.source = "obs/pose", .end = 1}},
                                      {"top", {.source = "obs/image"}}}});
  ASSERT_EQ(dataset.spec().keys.size(), 3U);
  EXPECT_THAT(dataset.spec().keys[0].shape, ElementsAre(2));
  EXPECT_THAT(dataset.spec().keys[2].shape, ElementsAre(1));
  const Hdf5Dataset whole({.path = SmallData("robomimic.hdf5")});
  const std::vector<float> actions = ReadAll<float>(whole, "action");
  const std::vector<float> parts = ReadAll<float>(dataset, "action");
  EXPECT_EQ(parts[0], actions[1]);
  EXPECT_EQ(parts.back(), actions.back());
}

TEST(Hdf5Keys, AKeyWithoutAnArrayHasTheOneThatItHasWithoutAMap) {
  Hdf5Config config{.path = SmallData("robomimic.hdf5"), .keys = {{"action", {}}, {"pose", {}}}};
  const Hdf5Dataset dataset(config);
  EXPECT_EQ(dataset.spec().keys.size(), 2U);
  EXPECT_EQ(ReadAll<float>(dataset, "pose"),
            ReadAll<float>(Hdf5Dataset({.path = config.path}), "pose"));
  config.keys["nothing"] = {};
  EXPECT_THAT(RefusalOf(config, ErrorCode::kConfig),
              HasSubstr("its keys are: action, depth, grid"));
}

TEST(Hdf5Keys, AnArrayThatIsNoImageIsRefusedAsOne) {
  EXPECT_THAT(RefusalOf({.path = SmallData("robomimic.hdf5"),
                         .keys = {{"action", {.source = "actions"}},
                                  {"pose", {.source = "obs/pose", .type = KeyType::kRgb}}}}),
              HasSubstr("/data/demo_1/obs/pose: expected an array for the key 'pose'"));
}

TEST(Hdf5Memory, ImagesThatDoNotFitAreReadAgain) {
  const Hdf5Dataset roomy({.path = SmallData("robomimic.hdf5")});
  Hdf5Config config{.path = SmallData("robomimic.hdf5"), .memory_limit_mb = 0.002};  // 2097 bytes
  const Hdf5Dataset tight(config);
  for (const char* const key : {"image", "planes"}) {
    EXPECT_EQ(ReadAll<std::uint8_t>(tight, key), ReadAll<std::uint8_t>(roomy, key)) << key;
  }
  config.memory_limit_mb = 0.0005;
  EXPECT_THAT(RefusalOf(config, ErrorCode::kConfig), HasSubstr("memory_limit_mb"));
}

TEST_F(Hdf5Files, ThatReferToOtherFilesAreRefused) {
  EXPECT_THAT(ErrorAfter([](FileInProgress* file) {
                Unlink(file, "data/demo_1/actions");
                H5Lcreate_external("secret.hdf5", "/x", file->id(), "data/demo_1/actions",
                                   H5P_DEFAULT, H5P_DEFAULT);
              }),
              HasSubstr("found a link into another file, 'secret.hdf5'"));
  EXPECT_THAT(
      ErrorAfter([](FileInProgress* file) {
        Unlink(file, "data/demo_1/actions");
        H5Lcreate_external("secret.hdf5", "/", file->id(), "other", H5P_DEFAULT, H5P_DEFAULT);
        H5Lcreate_soft("/other/x", file->id(), "data/demo_1/actions", H5P_DEFAULT, H5P_DEFAULT);
      }),
      HasSubstr("found a link into another file, 'secret.hdf5'"));
  EXPECT_THAT(ErrorAfter([](FileInProgress* file) {
                Unlink(file, "data/demo_1/obs/pose");
                const Handle layout(H5Pcreate(H5P_DATASET_CREATE), &H5Pclose);
                H5Pset_external(layout.id(), "/etc/passwd", 0, 72);
                file->Add("data/demo_1/obs/pose", {3, 3}, {}, layout.id());
              }),
              HasSubstr("/data/demo_1/obs/pose: expected data in the file, found a reference"));
  EXPECT_THAT(ErrorAfter([](FileInProgress* file) {
                Unlink(file, "data/demo_1/obs/pose");
                const Handle layout(H5Pcreate(H5P_DATASET_CREATE), &H5Pclose);
                const hsize_t sizes[] = {3, 3};
                const Handle space(H5Screate_simple(2, sizes, nullptr), &H5Sclose);
                H5Pset_virtual(layout.id(), space.id(), "secret.hdf5", "/x", space.id());
                file->Add("data/demo_1/obs/pose", {3, 3}, {}, layout.id());
              }),
              HasSubstr("/data/demo_1/obs/pose: expected data in the file, found a reference"));
}

TEST_F(Hdf5Files, ThatClaimMoreThanTheyHoldAreRefusedBeforeMemoryIsTaken) {
  const auto claim = [](hsize_t n, hsize_t chunk) {
    return [n, chunk](FileInProgress* file) {
      Unlink(file, "data/demo_1/obs/pose");
      const Handle layout(H5Pcreate(H5P_DATASET_CREATE), &H5Pclose);
      const hsize_t sizes[] = {chunk, 3};
      H5Pset_chunk(layout.id(), 2, sizes);
      file->Add("data/demo_1/obs/pose", {n, 3}, {}, layout.id());
    };
  };
  EXPECT_THAT(ErrorAfter(claim(1'000'000'000, 1000)), HasSubstr("expected 3 steps"));
  EXPECT_THAT(ErrorAfter(claim(3'000'000'000, 1000)), HasSubstr("dimensions below 2^31"));
}

TEST_F(Hdf5Files, ThatDoNotFitTogetherAreRefusedWithThePlace) {
  EXPECT_THAT(ErrorAfter([](FileInProgress* file) {
                Unlink(file, "data/demo_1/obs/pose");
                file->Add("data/demo_1/obs/pose", {2, 3}, {0, 1, 2, 3, 4, 5});
              }),
              HasSubstr("/data/demo_1/obs/pose: expected 3 steps, as actions has, found 2"));
  EXPECT_THAT(ErrorAfter([](FileInProgress* file) {
                Unlink(file, "data/demo_1/obs/pose");
                file->Add("data/demo_1/obs/pose", {3, 1}, {0, 1, 2});
              }),
              HasSubstr("as in the first episode, found float64 [3, 1]"));
  EXPECT_THAT(ErrorAfter([](FileInProgress* file) { Unlink(file, "data/demo_1/obs/pose"); }),
              HasSubstr("/data/demo_1/obs/pose: expected an array"));
}

TEST_F(Hdf5Files, NumbersThatFloat32CannotHoldAreNamedWithTheirPlace) {
  EXPECT_THAT(ErrorAfter(
                  [](FileInProgress* file) {
                    Unlink(file, "data/demo_1/obs/pose");
                    file->Add("data/demo_1/obs/pose", {3, 3}, {0, 1, 2, 3, 4, 1e300, 6, 7, 8});
                  },
                  ErrorCode::kNumeric),
              HasSubstr("/data/demo_1/obs/pose: step 1 of episode 1 holds 1e+300"));
}

TEST_F(Hdf5Files, IntegersThatFloat32WouldRoundAreNamedWithTheirPlace) {
  const auto with_time = [](double time) {
    return [time](FileInProgress* file) {
      for (const char* pose : {"data/demo_0/obs/pose", "data/demo_1/obs/pose"}) {
        Unlink(file, pose);
        file->Add(pose, {3, 3}, {0, 1, 2, 3, 4, time, 6, 7, 8}, H5P_DEFAULT, H5T_STD_I64LE);
      }
    };
  };
  EXPECT_THAT(ErrorAfter(with_time(16777217)),
              ::testing::AllOf(HasSubstr("/data/demo_0/obs/pose, step 1 of episode 0"),
                               HasSubstr("found 16777217"), HasSubstr("dataset.params.keys")));
  Write(2, with_time(16777218));
  EXPECT_NO_THROW(Hdf5Dataset({.path = path()}));
}

TEST_F(Hdf5Files, LinksAndGroupsThatContainThemselvesDoNoHarm) {
  Write(1, [](FileInProgress* file) {
    H5Lcreate_hard(file->id(), "data", file->id(), "data/loop", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/data/demo_0/obs/pose", file->id(), "data/demo_0/obs/also", H5P_DEFAULT,
                   H5P_DEFAULT);
  });
  const Hdf5Dataset dataset({.path = path()});
  EXPECT_THAT(dataset.episode_ends(), ElementsAre(3)) << "an episode counts once";
  EXPECT_EQ(ReadAll<float>(dataset, "also"), ReadAll<float>(dataset, "pose"));
}

TEST_F(Hdf5Files, OtherLayoutsAreShownInTheMessage) {
  Write(0, [](FileInProgress* file) { file->Add("trajectory/observation/pose", {3, 3}, {}); });
  EXPECT_THAT(Refusal(), ::testing::AllOf(HasSubstr("expected robomimic's layout"),
                                          HasSubstr("trajectory/observation/pose")));
  std::ofstream(path()) << "text";
  EXPECT_THAT(Refusal(),
              HasSubstr("expected a complete HDF5 file; libhdf5 says: file signature not found"));
}

TEST(Hdf5, FilesAreRecognizedByTheirNameOrSignature) {
  const auto* const entry = reinterpret_cast<const PluginEntry<Dataset>*>(dp_bench_plugin());
  const core::TemporaryFolder folder;
  const auto is_hdf5 = [&](const std::string& name, const std::string& text) {
    const fs::path file = folder.path() / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return entry->functions.recognizes(file);
  };
  const std::string signature = "\x89HDF\r\n\x1a\n";
  EXPECT_TRUE(is_hdf5("demos.hdf5", "cut off"));
  EXPECT_TRUE(is_hdf5("demos", signature));
  EXPECT_TRUE(is_hdf5("with_user_block", std::string(1024, ' ') + signature));
  EXPECT_TRUE(is_hdf5("aloha/episode_0.h5", signature));
  EXPECT_TRUE(entry->functions.recognizes(folder.path() / "aloha"));
  EXPECT_FALSE(is_hdf5("archive.zarr.zip", "PK"));
  EXPECT_FALSE(entry->functions.recognizes(folder.path() / "none"));
}

}  // namespace
}  // namespace dp_bench::hdf5::testing
