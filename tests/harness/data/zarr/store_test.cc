// Names cannot leave the folder in any way.
#include "data/zarr/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "core/temporary_folder.h"
#include "dp_bench/error.h"
#include "support/error_of.h"
#include "support/zarr_files.h"

namespace dp_bench::zarr {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::function<void()>& call) { return MessageOf(ErrorCode::kData, call); }

// A folder `inside` with files, and a secret file next to it.
class FolderStoreTest : public ::testing::Test {
 protected:
  FolderStoreTest() {
    std::filesystem::create_directories(root() / "data");
    std::ofstream(root() / "data" / "chunk") << "0123456789";
    std::ofstream(folder_.path() / "secret") << "secret";
  }

  std::filesystem::path root() const { return folder_.path() / "inside"; }
  std::unique_ptr<Store> Open() const { return OpenStore(root()); }
  std::string ReadError(const std::string& name) const {
    Bytes bytes;
    return ErrorOf([&] { Open()->Read(name, 100, &bytes); });
  }

  core::TemporaryFolder folder_;
};

TEST_F(FolderStoreTest, ReadsFilesAndTheirHeads) {
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

TEST_F(FolderStoreTest, RefusesFilesLargerThanAllowedBeforeReading) {
  Bytes bytes;
  const std::string error = ErrorOf([&] { Open()->Read("data/chunk", 9, &bytes); });
  EXPECT_THAT(error, HasSubstr("data/chunk has 10 bytes; at most 9"));
  EXPECT_TRUE(bytes.empty());
}

TEST_F(FolderStoreTest, NamesCannotLeaveTheFolder) {
  using std::string_literals::operator""s;
  for (const std::string& name : {"../secret"s, "data/../../secret"s, "/etc/passwd"s, ""s, "."s,
                                  ".."s, "data//chunk"s, "data/"s, "data/./chunk"s, "data\0/x"s}) {
    EXPECT_THAT(ReadError(name), HasSubstr("cannot leave the zarr folder")) << name;
  }
}

// zarr.ZipStore in mode "a" appends files that are written again, as Python's zipfile does.
TEST(ZipStore, TheLastEntryOfANameIsValid) {
  const core::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "rewritten.zip";
  ZarrFiles files;
  files["data/a"] = ToBytes("first");
  files["data/b"] = ToBytes("other");
  files["data/c"] = ToBytes("last");
  files.WriteZip(file);
  // libzip writes no second entry of a name: renames c to a
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  in.close();
  int n_renamed = 0;
  for (std::size_t at = 0; (at = bytes.find("data/c", at)) != std::string::npos; ++n_renamed) {
    bytes[at + 5] = 'a';
  }
  ASSERT_EQ(n_renamed, 2) << "in front of the file, and in the directory of the archive";
  std::ofstream(file, std::ios::binary) << bytes;
  Bytes content;
  OpenZipStore(file)->Read("data/a", 10, &content);
  EXPECT_EQ(content, ToBytes("last"));
  OpenZipStore(file)->Read("data/b", 10, &content);
  EXPECT_EQ(content, ToBytes("other"));
}

// As caches of model hubs, DVC and git-annex make them.
TEST_F(FolderStoreTest, FollowsLinks) {
  std::filesystem::create_symlink("../secret", root() / "file_link");
  std::filesystem::create_symlink(folder_.path(), root() / "folder_link");
  for (const char* name : {"file_link", "folder_link/secret"}) {
    Bytes bytes;
    Open()->Read(name, 10, &bytes);
    EXPECT_EQ(bytes, ToBytes("secret"));
  }
  EXPECT_THAT(Open()->ListFolders(""), ::testing::ElementsAre("data", "folder_link"));
}

TEST_F(FolderStoreTest, ALinkWithoutAFileIsNotAMissingFile) {
  std::filesystem::create_symlink("nowhere", root() / "data" / "broken");
  EXPECT_THAT(ErrorOf([&] { Open()->Peek("data/broken", {}); }),
              HasSubstr("data/broken is a link to a file that does not exist; fetch the content"));
}

TEST_F(FolderStoreTest, ReadsParts) {
  Bytes bytes(3);
  Open()->ReadPart("data/chunk", 4, bytes);
  EXPECT_EQ(bytes, ToBytes("456"));
  EXPECT_THAT(ErrorOf([&] { Open()->ReadPart("data/chunk", 8, bytes); }),
              HasSubstr("data/chunk ended at byte 10"));
}

TEST_F(FolderStoreTest, ListsFolders) {
  std::filesystem::create_directories(root() / "data" / "no_array");
  std::filesystem::create_directories(root() / "data" / "action");
  std::filesystem::create_directories(root() / "data" / ".hidden");
  EXPECT_THAT(Open()->ListFolders("data"), ::testing::ElementsAre("action", "no_array"));
  EXPECT_THAT(Open()->ListFolders("nothing"), ::testing::IsEmpty());
  EXPECT_THAT(ErrorOf([&] { Open()->ListFolders("data/chunk"); }), HasSubstr("data/chunk"));
}

TEST_F(FolderStoreTest, RefusesWhatIsNoRegularFile) {
  ASSERT_EQ(::mkfifo((root() / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(ReadError("fifo"), HasSubstr("expected a regular file"));
  EXPECT_THAT(ReadError("data"), HasSubstr("expected a regular file"));
}

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

TEST(ZipStore, ReadsPartsAndListsFolders) {
  const core::TemporaryFolder folder;
  ZarrFiles files;
  files["data/b/0"] = ToBytes("0123456789");
  files["data/a/.zarray"] = ToBytes("{}");
  files["data/.zgroup"] = ToBytes("{}");
  for (const bool is_deflated : {false, true}) {
    files.WriteZip(folder.path() / "a.zip", is_deflated);
    const auto store = OpenStore(folder.path() / "a.zip");
    EXPECT_THAT(store->ListFolders(""), ::testing::ElementsAre("data"));
    EXPECT_THAT(store->ListFolders("data"), ::testing::ElementsAre("a", "b"));
    Bytes bytes(3);
    if (is_deflated) {
      EXPECT_THAT(ErrorOf([&] { store->ReadPart("data/b/0", 4, bytes); }), HasSubstr("zip -0"));
      continue;
    }
    store->ReadPart("data/b/0", 4, bytes);
    EXPECT_EQ(bytes, ToBytes("456"));
    EXPECT_THAT(ErrorOf([&] { store->ReadPart("data/b/0", 8, bytes); }), HasSubstr("breaks off"));
  }
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
