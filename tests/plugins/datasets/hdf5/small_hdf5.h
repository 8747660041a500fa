// Small files for the tests of the plugin, and what they read of them.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/temporary_folder.h"
#include "dp_bench/plugin.h"
#include "hdf5_dataset.h"
#include "support/error_of.h"
#include "support/read_all.h"

extern "C" const dp_bench::PluginHeader* dp_bench_plugin() noexcept;

namespace dp_bench::hdf5::testing {

inline std::filesystem::path SmallData(const std::string& name) {
  return std::filesystem::path(DPB_SOURCE_DIR "/tests/data/hdf5") / name;
}

/// An HDF5 file that is open for writing.
class FileInProgress {
 public:
  explicit FileInProgress(const std::filesystem::path& path)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), &H5Fclose) {}

  hid_t id() const { return file_.id(); }

  void Add(const std::string& path, const std::vector<hsize_t>& shape,
           const std::vector<double>& values, hid_t layout = H5P_DEFAULT,
           hid_t type = H5T_IEEE_F64LE) {
    const Handle links(H5Pcreate(H5P_LINK_CREATE), &H5Pclose);
    H5Pset_create_intermediate_group(links.id(), 1);
    const Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
                       &H5Sclose);
    const Handle array(
        H5Dcreate2(file_.id(), path.c_str(), type, space.id(), links.id(), layout, H5P_DEFAULT),
        &H5Dclose);
    if (!values.empty()) {
      H5Dwrite(array.id(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    }
  }

 private:
  Handle file_;
};

/// The error of opening a dataset.
inline std::string RefusalOf(const Hdf5Config& config, ErrorCode code = ErrorCode::kData) {
  return MessageOf(code, [&] { const Hdf5Dataset dataset(config); });
}

/// With a file in robomimic's layout.
class Hdf5FileTest : public ::testing::Test {
 protected:
  using Change = std::function<void(FileInProgress*)>;

  static void AddDemo(FileInProgress* file, const std::string& group) {
    file->Add(group + "/actions", {3, 2}, {0, 1, 2, 3, 4, 5});
    file->Add(group + "/obs/pose", {3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  }

  /// Writes demo_0, demo_1, ..., three steps each, then makes a change.
  void Write(int n_demos, const Change& change) const {
    FileInProgress file(path());
    for (int i = 0; i < n_demos; ++i) AddDemo(&file, "data/demo_" + std::to_string(i));
    change(&file);
  }

  std::string Refusal(ErrorCode code = ErrorCode::kData) const {
    return RefusalOf({.path = path()}, code);
  }

  std::filesystem::path path() const { return folder_.path() / "demos.hdf5"; }

  core::TemporaryFolder folder_;
};

}  // namespace dp_bench::hdf5::testing
