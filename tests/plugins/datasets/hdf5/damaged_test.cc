// Files with damaged bytes are read or refused. Each is opened in a process of its own, as by a
// program: libhdf5 may damage the heap without a crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "core/atomic_file.h"
#include "core/temporary_folder.h"
#include "dp_bench/error.h"
#include "dp_bench/random.h"
#include "small_hdf5.h"
#include "support/child_process.h"

namespace dp_bench::hdf5::testing {
namespace {

constexpr int kRefused = 3;

// Returns whether the file was read.
bool OpenAndRead(const std::filesystem::path& path) {
  try {
    const Config params =
        Config::FromJson(R"({"memory_limit_mb": 8, "path": ")" + path.string() + "\"}");
    const std::unique_ptr<Dataset> opened = Hdf5Dataset::Create(params);
    const Dataset& dataset = *opened;
    const std::int64_t n = std::min<std::int64_t>(dataset.episode_ends().back(), 100);
    for (std::size_t key = 0; key < dataset.spec().keys.size(); ++key) {
      std::vector<std::byte> out(static_cast<std::size_t>(n) * dataset.spec().keys[key].ByteSize());
      if (out.size() < (1U << 24)) dataset.Read(static_cast<int>(key), 0, n, out);
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

class DamagedHdf5 : public ::testing::TestWithParam<const char*> {};

TEST_P(DamagedHdf5, IsReadOrRefused) {
  constexpr std::uint64_t kVariants = 30;
  const core::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "damaged.hdf5";
  const std::vector<std::byte> whole = core::ReadFile(SmallData(GetParam()), 1U << 20);
  const char* const asked = std::getenv("DPB_DAMAGED_VARIANTS");  // for more than a test needs
  const std::uint64_t n = asked == nullptr ? kVariants : std::stoull(asked);
  std::uint64_t n_read = 0;
  for (std::uint64_t variant = 0; variant < n; ++variant) {
    RandomStream random(variant, StreamId::kAugment, 0);
    std::vector<std::byte> bytes = whole;
    for (std::uint32_t i = 0; i <= random.NextU32() % 4; ++i) {
      bytes[random.NextU32() % bytes.size()] = static_cast<std::byte>(random.NextU32() & 0xffU);
    }
    if (random.NextU32() % 8 == 0) bytes.resize(random.NextU32() % bytes.size());
    core::WriteNewFile(path, bytes);
    const int status = StatusOf(StartChild([&path] {
      if (!OpenAndRead(path)) ::_exit(kRefused);
    }));
    EXPECT_TRUE(WIFEXITED(status)) << "variant " << variant;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) ++n_read;
    std::filesystem::remove(path);
  }
  EXPECT_GT(n_read, 0);
  EXPECT_LT(n_read, n);
}

INSTANTIATE_TEST_SUITE_P(All, DamagedHdf5,
                         ::testing::Values("robomimic.hdf5", "act/episode_2.hdf5"));

}  // namespace
}  // namespace dp_bench::hdf5::testing
