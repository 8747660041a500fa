#include "core/regular_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <vector>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

// A socket file that exists as long as this object.
class SocketFile {
 public:
  explicit SocketFile(const fs::path& path) : descriptor_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~SocketFile() { ::close(descriptor_); }

 private:
  int descriptor_;
};

std::string Refusal(const fs::path& path) {
  return MessageOf(ErrorCode::kIo, [&] { const RegularFile file(path); });
}

TEST(RegularFile, RefusesWhatIsNoRegularFileWithoutWaitingForIt) {
  const ScratchFolder folder;
  const fs::path fifo = folder.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  fs::create_symlink(fifo, folder.path() / "link");
  const SocketFile socket(folder.path() / "s");
  EXPECT_THAT(Refusal(fifo), HasSubstr("expected a regular file, found a named pipe (FIFO)"));
  EXPECT_THAT(Refusal(folder.path() / "link"), HasSubstr("found a named pipe (FIFO)"));
  EXPECT_THAT(Refusal(folder.path() / "s"), HasSubstr("found a socket"));
  EXPECT_THAT(Refusal("/dev/zero"), HasSubstr("cannot read '/dev/zero': expected a regular file, "
                                              "found a device"));
  EXPECT_THAT(Refusal(folder.path()), HasSubstr("found a folder"));
  EXPECT_THAT(Refusal(folder.path() / "absent"), HasSubstr("No such file"));
  EXPECT_EQ(CodeOf([&] { ReadTextFile(fifo, 100); }), ErrorCode::kIo);
  EXPECT_EQ(CodeOf([&] { ReadFile("/dev/zero", 100); }), ErrorCode::kIo);
}

TEST(RegularFile, ReadsPartsAndKeepsToItsLimit) {
  const ScratchFolder folder;
  const fs::path path = folder.path() / "f";
  WriteFileAtomically(path, "0123456789");
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { const RegularFile file(path, 9); }),
              HasSubstr("has 10 bytes, at most 9 are expected here"));
  RegularFile file(path, 10);
  std::string part(4, '\0');
  file.Seek(8);
  EXPECT_EQ(file.left(), 2);
  EXPECT_EQ(file.Read(std::as_writable_bytes(std::span(part))), 2);
  EXPECT_EQ(part.substr(0, 2), "89");
  file.Seek(2);
  file.ReadExactly(std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "2345");
  file.Seek(7);
  EXPECT_THAT(
      MessageOf(ErrorCode::kIo, [&] { file.ReadExactly(std::as_writable_bytes(std::span(part))); }),
      HasSubstr("ended while it was read"));
}

std::vector<std::string> Lines(const fs::path& path, std::size_t max_line_bytes) {
  LineReader reader(path, 1 << 20, max_line_bytes);
  std::vector<std::string> lines;
  for (std::string line; reader.Next(&line);) lines.push_back(line);
  return lines;
}

TEST(LineReader, ReadsLinesAsGetlineDoes) {
  const ScratchFolder folder;
  const fs::path path = folder.path() / "f";
  WriteFileAtomically(path, "one\n\nthree");
  EXPECT_THAT(Lines(path, 100), ElementsAre("one", "", "three"));
  WriteFileAtomically(path, "one\n");
  EXPECT_THAT(Lines(path, 100), ElementsAre("one"));
  WriteFileAtomically(path, "");
  EXPECT_THAT(Lines(path, 100), ElementsAre());
}

TEST(LineReader, CutsLongLinesAlsoAcrossItsBlocks) {
  const ScratchFolder folder;
  const fs::path path = folder.path() / "f";
  const std::string line(100'000, 'x');
  WriteFileAtomically(path, line + "\nlast");
  EXPECT_THAT(Lines(path, 1 << 20), ElementsAre(line, "last"));
  EXPECT_THAT(Lines(path, 3), ElementsAre("xxx", "las"));
}

}  // namespace
}  // namespace dp_bench::core
