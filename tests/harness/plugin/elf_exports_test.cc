// Files that are not shared libraries, or damaged ones, are refused without reading past their end.
#include "plugin/elf_exports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "dp_bench/error.h"
#include "support/scratch_folder.h"

namespace dp_bench::plugin {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kGoodFile = fs::path(DPB_BROKEN_PLUGIN_DIR) / "good" / "libdpb_env_toy.so";

std::string ReadAll(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

fs::path WriteFile(const std::string& bytes) {
  const fs::path file = fs::path(testing::TempDir()) / "elf_exports_test.so";
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  return file;
}

std::string RefusalOf(const fs::path& file) {
  try {
    ExportsSymbol(file, "dp_bench_plugin");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kPlugin);
    return error.what();
  }
  return "no error";
}

TEST(ElfExports, FindsDefinedFunctionsOnly) {
  EXPECT_TRUE(ExportsSymbol(kGoodFile, "dp_bench_plugin"));
  EXPECT_FALSE(ExportsSymbol(kGoodFile, "dp_bench_plug"));
  EXPECT_FALSE(ExportsSymbol(kGoodFile, "_ZN8dp_bench3EnvD2Ev"));  // used, defined elsewhere
}

TEST(ElfExports, OtherFilesAreRefused) {
  EXPECT_THAT(RefusalOf(WriteFile("")), HasSubstr("it is not a shared library"));
  EXPECT_THAT(RefusalOf(WriteFile(std::string(5000, '#'))), HasSubstr("not a shared library"));
  EXPECT_THAT(RefusalOf("/no/such/file.so"), HasSubstr("No such file"));
  EXPECT_THAT(RefusalOf(testing::TempDir()), HasSubstr("found a folder"));
  EXPECT_THAT(RefusalOf("/dev/zero"), HasSubstr("found a device"));
}

TEST(ElfExports, AFifoIsRefusedWithoutWaiting) {
  const ScratchFolder scratch;
  const fs::path fifo = scratch.path() / "libdpb_env_x.so";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(RefusalOf(fifo), HasSubstr("found a named pipe (FIFO)"));
}

TEST(ElfExports, ALibraryOfAnotherMachineIsRefused) {
  std::string bytes = ReadAll(kGoodFile);
  bytes[18] = 8;  // e_machine: MIPS
  bytes[19] = 0;
  EXPECT_THAT(RefusalOf(WriteFile(bytes)), HasSubstr("for this machine"));
}

TEST(ElfExports, ACutOffLibraryIsRefusedAtEveryLength) {
  const std::string bytes = ReadAll(kGoodFile);
  for (std::size_t length = 0; length < bytes.size(); length += 1 + bytes.size() / 50) {
    EXPECT_THAT(RefusalOf(WriteFile(bytes.substr(0, length))),
                HasSubstr("is not a dp_bench plugin"))
        << "length " << length;
  }
}

TEST(ElfExports, HostileHeadersAreRefusedOrHarmless) {
  const std::string bytes = ReadAll(kGoodFile);
  constexpr std::size_t kElfHeaderSize = 64;
  for (std::size_t position = 0; position < kElfHeaderSize; ++position) {
    std::string changed = bytes;
    changed[position] = '\xff';
    try {
      ExportsSymbol(WriteFile(changed), "dp_bench_plugin");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kPlugin);
    }
  }
}

}  // namespace
}  // namespace dp_bench::plugin
