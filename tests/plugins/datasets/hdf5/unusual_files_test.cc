// Files that h5py writes and that are unlike those of robomimic: each is read right, refused, or
// read in part with a warning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "small_hdf5.h"

namespace dp_bench::hdf5::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr hsize_t kPixels = 16;

std::vector<double> Ramp(std::size_t n) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<double>(i % 251);
  return values;
}

class UnusualHdf5 : public Hdf5FileTest {
 protected:
  // Two demonstrations, each with an array obs/x.
  std::string ErrorOf(hid_t first_type, const std::vector<hsize_t>& first, hid_t second_type,
                      const std::vector<hsize_t>& second) const {
    Write(2, [&](FileInProgress* file) {
      file->Add("data/demo_0/obs/x", first, {}, H5P_DEFAULT, first_type);
      file->Add("data/demo_1/obs/x", second, {}, H5P_DEFAULT, second_type);
    });
    return Refusal();
  }

  // What opening the path says to the user.
  static std::string WarningsOf(const fs::path& path,
                                const std::vector<std::int64_t>& wanted_ends) {
    ::testing::internal::CaptureStderr();
    const Hdf5Dataset dataset({.path = path});
    std::string warnings = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(
        std::vector<std::int64_t>(dataset.episode_ends().begin(), dataset.episode_ends().end()),
        wanted_ends);
    return warnings;
  }
};

TEST_F(UnusualHdf5, AnotherShapeOfAsManyBytesIsRefused) {
  const hid_t u8 = H5T_STD_U8LE;
  EXPECT_THAT(ErrorOf(u8, {3, 32, 48, 3}, u8, {3, 48, 32, 3}),
              AllOf(HasSubstr(path().string() + ", /data/demo_1/obs/x: expected uint8 [3, 32, 48, "
                                                "3] for the key 'x' as in the first episode"),
                    HasSubstr("found uint8 [3, 48, 32, 3]")));
  EXPECT_THAT(ErrorOf(H5T_IEEE_F64LE, {3, 2, 3}, H5T_IEEE_F64LE, {3, 3, 2}),
              HasSubstr("found float64 [3, 3, 2]"));
  EXPECT_THAT(ErrorOf(H5T_IEEE_F64LE, {3, 6}, H5T_IEEE_F64LE, {3, 2, 3}),
              HasSubstr("found float64 [3, 2, 3]"));
  EXPECT_THAT(ErrorOf(H5T_STD_U16LE, {3, 32, 48}, H5T_STD_U16LE, {3, 48, 32}),
              HasSubstr("found uint16 [3, 48, 32]"));
}

TEST_F(UnusualHdf5, AnotherKindOfNumbersIsRefused) {
  EXPECT_THAT(ErrorOf(H5T_IEEE_F32LE, {3, 4}, H5T_STD_U8LE, {3, 4}),
              HasSubstr("expected float32 [3, 4] for the key 'x' as in the first episode, found "
                        "uint8 [3, 4]"));
}

TEST_F(UnusualHdf5, NumbersOfAnotherWidthAreRead) {
  Write(2, [](FileInProgress* file) {
    file->Add("data/demo_0/obs/x", {3}, {1, 2, 3}, H5P_DEFAULT, H5T_IEEE_F32LE);
    file->Add("data/demo_1/obs/x", {3, 1}, {4, 5, 6});
  });
  EXPECT_THAT(ReadAll<float>(Hdf5Dataset({.path = path()}), "x"), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(UnusualHdf5, SingleValuesAreLeftOutWithAWarning) {
  Write(1, [](FileInProgress* file) { file->Add("data/demo_0/obs/mass", {}, {1.5}); });
  EXPECT_THAT(WarningsOf(path(), {3}), AllOf(HasSubstr("obs/mass"), HasSubstr("a single value")));
  EXPECT_THAT(
      RefusalOf({.path = path(),
                 .keys = {{"action", {.source = "actions"}}, {"mass", {.source = "obs/mass"}}}}),
      HasSubstr("/data/demo_0/obs/mass: expected 1 to 8 dimensions, found a single value"));
}

TEST_F(UnusualHdf5, WhatWasNeverWrittenHasTheFillValue) {
  {
    FileInProgress file(path());
    file.Add("data/demo_0/actions", {12, 1}, Ramp(12));
    const double fill = 7.5;
    const Handle chunked(H5Pcreate(H5P_DATASET_CREATE), &H5Pclose);
    const hsize_t chunk[] = {5, 4};
    H5Pset_chunk(chunked.id(), 2, chunk);
    file.Add("data/demo_0/obs/zeros", {12, 4}, {}, chunked.id());
    H5Pset_fill_value(chunked.id(), H5T_NATIVE_DOUBLE, &fill);
    file.Add("data/demo_0/obs/none", {12, 4}, {}, chunked.id());
    file.Add("data/demo_0/obs/some", {12, 4}, {}, chunked.id());
    const Handle array(H5Dopen2(file.id(), "data/demo_0/obs/some", H5P_DEFAULT), &H5Dclose);
    const Handle space(H5Dget_space(array.id()), &H5Sclose);
    const hsize_t begin[] = {5, 0};
    const Handle rows(H5Screate_simple(2, chunk, nullptr), &H5Sclose);
    H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, begin, nullptr, chunk, nullptr);
    const std::vector<double> ones(20, 1.0);
    H5Dwrite(array.id(), H5T_NATIVE_DOUBLE, rows.id(), space.id(), H5P_DEFAULT, ones.data());
    const Handle whole(H5Pcreate(H5P_DATASET_CREATE), &H5Pclose);
    H5Pset_fill_value(whole.id(), H5T_NATIVE_DOUBLE, &fill);
    file.Add("data/demo_0/obs/whole", {12, 4}, {}, whole.id());
  }
  const Hdf5Dataset dataset({.path = path()});
  EXPECT_THAT(ReadAll<float>(dataset, "zeros"), Each(0.0F));
  EXPECT_THAT(ReadAll<float>(dataset, "none"), Each(7.5F));
  EXPECT_THAT(ReadAll<float>(dataset, "whole"), Each(7.5F));
  const std::vector<float> some = ReadAll<float>(dataset, "some");
  for (std::size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(some[i], i >= 20 && i < 40 ? 1.0F : 7.5F) << i;
  }
}

TEST_F(UnusualHdf5, FloatsAreColoursOnlyIfTheyBeginWithWholeNumbers) {
  const std::vector<hsize_t> shape = {3, kPixels, kPixels, 3};
  const std::size_t n = 3 * kPixels * kPixels * 3;
  Write(1, [&](FileInProgress* file) {
    std::vector<double> values = Ramp(n);
    file->Add("data/demo_0/obs/colour", shape, values, H5P_DEFAULT, H5T_IEEE_F32LE);
    for (double& value : values) value /= 256.0;
    file->Add("data/demo_0/obs/points", shape, values, H5P_DEFAULT, H5T_IEEE_F32LE);
  });
  const Hdf5Dataset dataset({.path = path()});
  EXPECT_EQ(ReadAll<std::uint8_t>(dataset, "colour")[7], 7);
  EXPECT_EQ(ReadAll<float>(dataset, "points")[7], 7.0F / 256.0F);
  const Hdf5Dataset declared(
      {.path = path(),
       .keys = {{"action", {.source = "actions"}},
                {"points", {.source = "obs/points", .type = KeyType::kRgb}}}});
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { ReadAll<std::uint8_t>(declared, "points"); }),
              HasSubstr(R"(--keys '{"points": {"type": "low_dim"}}')"));
}

TEST_F(UnusualHdf5, ObservationsOfLaterEpisodesAreNamed) {
  Write(3, [](FileInProgress* file) {
    file->Add("data/demo_1/obs/force", {3}, {1, 2, 3});
    file->Add("data/demo_2/obs/force", {3}, {1, 2, 3});
  });
  EXPECT_THAT(WarningsOf(path(), {3, 6, 9}),
              AllOf(HasSubstr("obs/force (in 2 of 3 episodes"), HasSubstr("/data/demo_1 on")));
}

TEST_F(UnusualHdf5, ASecondNameOfADemonstrationIsADemonstration) {
  Write(1, [](FileInProgress* file) {
    H5Lcreate_hard(file->id(), "data/demo_0", file->id(), "data/demo_1", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file->id(), "data", file->id(), "data/loop", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_EQ(WarningsOf(path(), {3, 6}), "");
}

TEST_F(UnusualHdf5, StrayActionsDoNotHideDemonstrations) {
  Write(2, [](FileInProgress* file) { file->Add("action", {5, 2}, Ramp(10)); });
  EXPECT_THAT(WarningsOf(path(), {3, 6}), HasSubstr("left out actions"));
  Write(0, [](FileInProgress* file) {
    file->Add("action", {5, 2}, Ramp(10));
    file->Add("data/demo_0/action", {3, 2}, Ramp(6));
  });
  EXPECT_THAT(WarningsOf(path(), {5}), HasSubstr("(1): data/demo_0"));
}

TEST_F(UnusualHdf5, FilesOfAFolderAreReadOrNamed) {
  const fs::path folder = folder_.path() / "runs";
  const auto add = [&](const std::string& name) {
    fs::create_directories((folder / name).parent_path());
    FileInProgress file(folder / name);
    AddDemo(&file, "data/demo_0");
  };
  const auto* const entry = reinterpret_cast<const PluginEntry<Dataset>*>(dp_bench_plugin());
  add("later/episode_0.hdf5");
  EXPECT_TRUE(entry->functions.recognizes(folder));
  EXPECT_THAT(RefusalOf({.path = folder}),
              AllOf(HasSubstr("only in folders in it"), HasSubstr("later")));
  add("episode_0.hdf5");
  add("episode_1.HDF5");
  add("episode_2.H5");
  EXPECT_THAT(WarningsOf(folder, {3, 6, 9}), HasSubstr("(1): later"));
  fs::create_directories(folder_.path() / "other/meta");
  fs::create_directories(folder_.path() / "other/raw");
  std::ofstream(folder_.path() / "other/raw/a.hdf5") << "";
  EXPECT_FALSE(entry->functions.recognizes(folder_.path() / "other"));
}

}  // namespace
}  // namespace dp_bench::hdf5::testing
