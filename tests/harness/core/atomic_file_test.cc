// Files and folders appear completely or not at all.
#include "core/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <set>
#include <string>

#include "dp_bench/error.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::core {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(AtomicFile, ReplacesAnOlderFileAndLeavesNothingElse) {
  const ScratchFolder scratch;
  WriteFileAtomically(scratch.path() / "a.txt", "old");
  WriteFileAtomically(scratch.path() / "a.txt", "new");
  EXPECT_EQ(ReadTextFile(scratch.path() / "a.txt", 100), "new");
  EXPECT_EQ(NamesIn(scratch.path()), std::set<std::string>{"a.txt"});
}

TEST(AtomicFile, LeavesTheOlderFileWhenNotCommitted) {
  const ScratchFolder scratch;
  WriteFileAtomically(scratch.path() / "a.txt", "old");
  {
    AtomicFile file(scratch.path() / "a.txt");
    file.Write("half of the n");
  }
  EXPECT_EQ(ReadTextFile(scratch.path() / "a.txt", 100), "old");
  EXPECT_EQ(NamesIn(scratch.path()), std::set<std::string>{"a.txt"});
}

TEST(AtomicFile, IsCopiedWhereTheSystemCannotNameIt) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "a.txt";
  const int descriptor = ::memfd_create("content", MFD_CLOEXEC);  // in no folder's file system
  const std::string content(3'000'000, 'x');
  ASSERT_EQ(::write(descriptor, content.data(), content.size()), std::ssize(content));
  PublishUnnamed(descriptor, TemporaryFor(path), path);
  ::close(descriptor);
  EXPECT_EQ(ReadTextFile(path, content.size()), content);
  EXPECT_EQ(NamesIn(scratch.path()), std::set<std::string>{"a.txt"});
}

TEST(AtomicFile, NamesPathAndReasonWhenTheSystemRefuses) {
  const ScratchFolder scratch;
  const std::string message = MessageOf(
      ErrorCode::kIo, [&] { WriteFileAtomically(scratch.path() / "missing" / "a.txt", "x"); });
  EXPECT_THAT(message, HasSubstr("missing/a.txt"));
  EXPECT_THAT(message, HasSubstr("No such file or directory"));
}

TEST(NameOf, IsTheLastPartOfAPath) {
  EXPECT_EQ(NameOf("a/b.zarr/"), "b.zarr");
  EXPECT_EQ(NameOf("a/b/.."), "a");
  EXPECT_EQ(NameOf(""), "");
}

TEST(Beside, IgnoresASlashAtTheEnd) {
  EXPECT_EQ(Beside("a/b", ".json"), "a/b.json");
  EXPECT_EQ(Beside("a/b/", ".json"), "a/b.json");
  EXPECT_EQ(Beside("a/b.zarr/", ""), "a/b.zarr");
}

TEST(AtomicFolder, AppearsOnlyAtCommit) {
  const ScratchFolder scratch;
  AtomicFolder folder(scratch.path() / "nested" / "result");
  WriteFileAtomically(folder.temporary() / "a.txt", "x");
  EXPECT_FALSE(fs::exists(scratch.path() / "nested" / "result"));
  folder.Commit();
  EXPECT_EQ(NamesIn(scratch.path() / "nested"), std::set<std::string>{"result"});
  EXPECT_EQ(ReadTextFile(scratch.path() / "nested" / "result" / "a.txt", 100), "x");
}

TEST(AtomicFolder, VanishesWhenNotCommitted) {
  const ScratchFolder scratch;
  {
    AtomicFolder folder(scratch.path() / "result");
    WriteFileAtomically(folder.temporary() / "a.txt", "x");
  }
  EXPECT_TRUE(NamesIn(scratch.path()).empty());
}

TEST(AtomicFolder, RefusesToOverwrite) {
  const ScratchFolder scratch;
  fs::create_directories(scratch.path() / "result");
  WriteFileAtomically(scratch.path() / "result" / "precious.txt", "x");
  AtomicFolder folder(scratch.path() / "result");
  WriteFileAtomically(folder.temporary() / "a.txt", "y");
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { folder.Commit(); }), HasSubstr("not empty"));
  EXPECT_TRUE(fs::exists(scratch.path() / "result" / "precious.txt"));
}

TEST(AtomicFolder, TemporaryNamesAreRecognised) {
  EXPECT_TRUE(IsTemporaryName("latest.tmp.0123456789abcdef"));
  EXPECT_FALSE(IsTemporaryName("latest"));
  EXPECT_FALSE(IsTemporaryName("latest.tmp.mine"));
}

TEST(AtomicFolder, WhatAKillLeftIsRemovedAtAnyDepth) {
  const ScratchFolder scratch;
  fs::create_directories(scratch.path() / "media" / "half.tmp.0123456789abcdef");
  for (const char* name :
       {"a.txt", "a.txt.tmp.0123456789abcdef", "media/b.txt.tmp.0123456789abcdef",
        "media/half.tmp.0123456789abcdef/c.txt", "media/d.tmp.mine"}) {
    WriteFileAtomically(scratch.path() / name, "x");
  }
  RemoveTemporaryFiles(scratch.path());
  EXPECT_EQ(NamesIn(scratch.path()), (std::set<std::string>{"a.txt", "media"}));
  EXPECT_EQ(NamesIn(scratch.path() / "media"), std::set<std::string>{"d.tmp.mine"});
}

TEST(FsyncFolder, GoesOnWhereTheFileSystemKnowsItForFilesOnly) {
  EXPECT_NO_THROW(FsyncFolder("/proc"));  // EINVAL
  EXPECT_EQ(CodeOf([] { FsyncFolder("/nowhere"); }), ErrorCode::kIo);
}

TEST(ReadFile, RefusesMoreThanAllowedBeforeTakingMemory) {
  const ScratchFolder scratch;
  WriteFileAtomically(scratch.path() / "a.txt", "0123456789");
  EXPECT_EQ(ReadFile(scratch.path() / "a.txt", 10).size(), 10U);
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { ReadFile(scratch.path() / "a.txt", 9); }),
              HasSubstr("has 10 bytes, at most 9"));
}

TEST(ReadFile, RefusesAFolder) {
  const ScratchFolder scratch;
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { ReadFile(scratch.path(), 9); }),
              HasSubstr("expected a regular file, found a folder"));
}

}  // namespace
}  // namespace dp_bench::core
