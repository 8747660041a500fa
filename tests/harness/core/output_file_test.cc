// What is already at the place of a result decides how it is written.
#include "core/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <future>
#include <string>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::core {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  std::string Text(const char* name) const { return ReadTextFile(folder_ / name, 100); }

  ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(OutputFileTest, AFileIsReplacedAsAWhole) {
  WriteOutput(folder_ / "a", "old");
  WriteOutput(folder_ / "a", "new");
  EXPECT_EQ(Text("a"), "new");
  EXPECT_EQ(NamesIn(folder_), std::set<std::string>{"a"});
}

TEST_F(OutputFileTest, LinksAreFollowedAndStay) {
  fs::create_directory(folder_ / "store");
  fs::create_symlink("store/target", folder_ / "inner");
  fs::create_symlink(folder_ / "inner", folder_ / "link");
  WriteOutput(folder_ / "link", "first");  // the target does not exist yet
  WriteOutput(folder_ / "link", "second");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "inner"));
  EXPECT_EQ(Text("store/target"), "second");
}

TEST_F(OutputFileTest, LinksInACircleAreAnError) {
  fs::create_symlink("b", folder_ / "a");
  fs::create_symlink("a", folder_ / "b");
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { WriteOutput(folder_ / "a", "x"); }),
              HasSubstr("symbolic link"));
}

TEST_F(OutputFileTest, AFifoIsWrittenThrough) {
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  auto reader = std::async(std::launch::async, [&] {
    const int descriptor = ::open(fifo.c_str(), O_RDONLY);
    std::array<char, 100> text{};
    const ssize_t n = ::read(descriptor, text.data(), text.size());
    ::close(descriptor);
    return std::string(text.data(), static_cast<std::size_t>(n));
  });
  WriteOutput(fifo, "through");
  EXPECT_EQ(reader.get(), "through");
  EXPECT_TRUE(fs::is_fifo(fifo));
}

TEST_F(OutputFileTest, ADeviceIsWrittenThrough) {
  const fs::path device = folder_ / "null";
  if (::mknod(device.c_str(), S_IFCHR | 0600, 0x103) != 0) GTEST_SKIP() << "only root may";
  WriteOutput(device, "gone");
  EXPECT_TRUE(fs::is_character_file(device));
}

// As of the shell's >(...) and 7>file.
TEST_F(OutputFileTest, AnOpenDescriptorIsWrittenThroughWhereItStands) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  WriteOutput("/dev/fd/" + std::to_string(ends[1]), "through");
  std::array<char, 7> text{};
  ASSERT_EQ(::read(ends[0], text.data(), text.size()), 7);
  EXPECT_EQ(std::string(text.data(), text.size()), "through");
  EXPECT_THAT(MessageOf(ErrorCode::kIo,
                        [&] { WriteOutput("/proc/self/fd/" + std::to_string(ends[0]), "x"); }),
              HasSubstr("for reading only"));
  ::close(ends[0]);
  ::close(ends[1]);

  const int file = ::open((folder_ / "a").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(::write(file, "before ", 7), 7);
  WriteOutput("/dev/fd/" + std::to_string(file), "after");
  ::close(file);
  EXPECT_EQ(Text("a"), "before after");
}

TEST_F(OutputFileTest, FoldersSocketsAndMissingFoldersAreRefusedBeforeTheWork) {
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { FindOutput(folder_); }), HasSubstr("a folder"));
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { FindOutput(folder_ / "missing/a"); }),
              HasSubstr("missing/a"));
  const fs::path path = folder_ / "socket";
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  if (path.native().size() >= sizeof(address.sun_path)) GTEST_SKIP() << "the path is too long";
  std::strcpy(address.sun_path, path.c_str());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { FindOutput(path); }), HasSubstr("a socket"));
  ::close(listener);
  EXPECT_TRUE(fs::is_socket(path));
}

}  // namespace
}  // namespace dp_bench::core
