// Names cannot leave the folder in any way.
#include "data/zarr/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "core/temporary_folder.h"
#include "dp_bench/error.h"
#include "support/error_of.h"
#include "support/zarr_files.h"

namespace dp_bench::zarr {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::function<void()>& call) { return MessageOf(ErrorCode::kData, call); }

// A folder `inside` with files, and a secret file next to it.
class FolderStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  FolderStoreTest() {
    std::filesystem::create_directories(root() / "data");
    std::ofstream(root() / "data" / "chunk") << "0123456789";
    std::ofstream(folder_.path() / "secret") << "secret";
  }

  std::filesystem::path root() const { return folder_.path() / "inside"; }
  std::unique_ptr<Store> Open() const { return OpenFolderStore(root(), GetParam()); }
  std::string ReadError(const std::string& name) const {
    Bytes bytes;
    return ErrorOf([&] { Open()->Read(name, 100, &bytes); });
  }

  core::TemporaryFolder folder_;
};

TEST_P(FolderStoreTest, ReadsFilesAndTheirHeads) {
  Bytes bytes;
  Open()->Read("data/chunk", 10, &bytes);
  EXPECT_EQ(bytes, ToBytes("0123456789"));
  Bytes head(4);
  EXPECT_EQ(Open()->Peek("data/chunk", head), 10U);
  EXPECT_EQ(head, ToBytes("0123"));
  Bytes long_head(20);
  EXPECT_EQ(Open()->Peek("data/chunk", long_head), 10U);
  EXPECT_EQ(Open()->Peek("data/other", head), std::nullopt);
  EXPECT_EQ(Open()->Peek("data/chunk/below", head), std::nullopt);
}

TEST_P(FolderStoreTest, RefusesFilesLargerThanAllowedBeforeReading) {
  Bytes bytes;
  const std::string error = ErrorOf([&] { Open()->Read("data/chunk", 9, &bytes); });
  EXPECT_THAT(error, HasSubstr("data/chunk has 10 bytes; at most 9"));
  EXPECT_TRUE(bytes.empty());
}

TEST_P(FolderStoreTest, NamesCannotLeaveTheFolder) {
  using std::string_literals::operator""s;
  for (const std::string& name : {"../secret"s, "data/../../secret"s, "/etc/passwd"s, ""s, "."s,
                                  ".."s, "data//chunk"s, "data/"s, "data/./chunk"s, "data\0/x"s}) {
    EXPECT_THAT(ReadError(name), HasSubstr("cannot leave the zarr folder")) << name;
  }
}

TEST_P(FolderStoreTest, LinksCannotLeaveTheFolder) {
  std::filesystem::create_symlink("../secret", root() / "file_link");
  std::filesystem::create_symlink("..", root() / "folder_link");
  std::filesystem::create_symlink(folder_.path() / "secret", root() / "absolute_link");
  for (const char* name : {"file_link", "folder_link/secret", "absolute_link"}) {
    EXPECT_THAT(ReadError(name), ::testing::AnyOf(HasSubstr("leaves the zarr folder"),
                                                  HasSubstr("is a symbolic link")));
  }
}

TEST_P(FolderStoreTest, ListsTheArraysOfAFolder) {
  std::filesystem::create_directories(root() / "data" / "action");
  std::filesystem::create_directories(root() / "data" / "no_array");
  std::filesystem::create_directories(root() / "data" / "group" / "nested");
  std::ofstream(root() / "data" / "action" / ".zarray") << "{}";
  std::ofstream(root() / "data" / "group" / "nested" / ".zarray") << "{}";
  EXPECT_THAT(Open()->ListArrays("data"), ::testing::ElementsAre("action"));
  EXPECT_THAT(Open()->ListArrays("nothing"), ::testing::IsEmpty());
  EXPECT_THAT(ErrorOf([&] { Open()->ListArrays("data/chunk"); }), HasSubstr("data/chunk"));
}

TEST_P(FolderStoreTest, RefusesWhatIsNoRegularFile) {
  ASSERT_EQ(::mkfifo((root() / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(ReadError("fifo"), HasSubstr("not a regular file"));
  EXPECT_THAT(ReadError("data"), HasSubstr("not a regular file"));
}

INSTANTIATE_TEST_SUITE_P(Openat2, FolderStoreTest, ::testing::Values(true));
INSTANTIATE_TEST_SUITE_P(Walk, FolderStoreTest, ::testing::Values(false));

TEST(ZipStore, NamesTheArchiveThatCannotBeRead) {
  const core::TemporaryFolder folder;
  std::ofstream(folder.path() / "bad.zarr.zip") << "this is no archive";
  EXPECT_THAT(ErrorOf([&] { OpenStore(folder.path() / "bad.zarr.zip"); }),
              HasSubstr("bad.zarr.zip as a zip archive"));
}

TEST(ZipStore, FindsADamagedEntryByItsChecksum) {
  const core::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "a.zip";
  ZarrFiles files;
  files["data/chunk"] = ToBytes("a chunk that is stored as it is");
  files.WriteZip(file);
  {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    std::string content(200, '\0');
    stream.read(content.data(), 200);
    stream.clear();
    stream.seekp(static_cast<std::streamoff>(content.find("stored")));
    stream.write("S", 1);
  }
  const auto store = OpenStore(file);
  Bytes bytes;
  EXPECT_THAT(ErrorOf([&] { store->Read("data/chunk", 100, &bytes); }), HasSubstr("checksum"));
}

TEST(ZipStore, KeepsTheLimitsOfTheFolder) {
  const core::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "a.zip";
  ZarrFiles files;
  files["bomb"] = Bytes(1 << 20);
  files.WriteZip(file, /*deflate=*/true);
  EXPECT_LT(std::filesystem::file_size(file), 4096U);
  const auto store = OpenStore(file);
  Bytes bytes;
  EXPECT_THAT(ErrorOf([&] { store->Read("bomb", 1000, &bytes); }), HasSubstr("at most 1000"));
  EXPECT_THAT(ErrorOf([&] { store->Read("../bomb", 1000, &bytes); }), HasSubstr("cannot leave"));
  EXPECT_THAT(ErrorOf([&] { store->Read("none", 1000, &bytes); }), HasSubstr("does not exist"));
}

}  // namespace
}  // namespace dp_bench::zarr
