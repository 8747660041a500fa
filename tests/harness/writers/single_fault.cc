#include "harness/writers/single_fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include "core/atomic_file.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;

constexpr int kMostPlaces = 1000;  // a writer that makes more calls would never end
constexpr int kRefused = 0;        // ENOSPC or EIO

// In memory if such a folder exists: syncing a disk thousands of times takes minutes.
fs::path FreshFolder() {
  static const fs::path memory = "/dev/shm";
  const fs::path parent =
      ::access(memory.c_str(), W_OK) == 0 ? memory : fs::path(testing::TempDir());
  const fs::path folder = parent / ("writers_" + std::to_string(::getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

// The errors that POSIX lists for the call. Refusals alternate between lack of space and a disk
// error.
std::vector<int> FaultsOf(FaultyCall call) {
  switch (call) {
    case FaultyCall::kWrite:
      return {kRefused, EINTR, kShortWrite, kShortWriteThenFull};
    case FaultyCall::kOpen:
    case FaultyCall::kFsync:
    case FaultyCall::kTruncate:
      return {kRefused, EINTR};
    case FaultyCall::kRename:
    case FaultyCall::kMkdir:
    case FaultyCall::kRemove:
      break;
  }
  return {kRefused};
}

std::string ReasonOf(int error) {
  return std::strerror(error == kShortWriteThenFull ? ENOSPC : error);
}

std::string TemporaryFilesIn(const fs::path& folder) {
  std::string names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (core::IsTemporaryName(name)) names += name + " ";
  }
  return names;
}

// The message of the Error that `write` throws; empty if it throws none.
std::string MessageOfWriting(const Writer& writer, const fs::path& folder) {
  try {
    writer.write(folder);
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "no Error, but " << error.what();
    return error.what();
  }
  return "";
}

void RequireNew(const Writer& writer, const fs::path& folder) {
  EXPECT_EQ(MessageOfWriting(writer, folder), "");
  EXPECT_EQ(writer.find(folder), kNew);
}

// False if the writer makes fewer calls.
bool FailOnce(const Writer& writer, FaultyCall call, int error, int place) {
  const fs::path folder = FreshFolder();
  writer.prepare(folder);
  std::string message;
  bool has_struck = false;
  {
    const InjectedFault fault(folder, call, error, place);
    message = MessageOfWriting(writer, folder);
    has_struck = fault.has_struck();
  }
  if (!has_struck) {
    EXPECT_EQ(message, "");
    EXPECT_EQ(writer.find(folder), kNew);
    return false;
  }
  if (error == EINTR || error == kShortWrite) {
    EXPECT_EQ(message, "");
  }
  if (call != FaultyCall::kRemove) {
    EXPECT_EQ(TemporaryFilesIn(folder), "");
  }
  const std::string found = writer.find(folder);
  if (message.empty()) {
    EXPECT_EQ(found, kNew) << "and nothing was thrown";
  } else {
    EXPECT_THAT(message, testing::HasSubstr(ReasonOf(error)));
    EXPECT_TRUE(found == kOld || found == kNew) << found << "\n" << message;
  }
  RequireNew(writer, folder);
  return true;
}

}  // namespace

void FailEachCallOnce(const Writer& writer) {
  std::string counts;
  for (const FaultyCall call : kFaultyCalls) {
    int n_faults = 0;
    for (const int kind : FaultsOf(call)) {
      for (int place = 1; place < kMostPlaces; ++place) {
        const int error = kind != kRefused ? kind : place % 2 == 1 ? ENOSPC : EIO;
        SCOPED_TRACE(std::string(NameOf(call)) + " number " + std::to_string(place) + ": " +
                     (error < 0 ? "short write" : ReasonOf(error)));
        if (!FailOnce(writer, call, error, place) || testing::Test::HasFatalFailure()) break;
        ++n_faults;
      }
    }
    counts += " " + std::string(NameOf(call)) + " " + std::to_string(n_faults);
    if (std::ranges::find(writer.calls, call) != writer.calls.end()) {
      EXPECT_GT(n_faults, 0) << writer.name << ": no fault reached its calls of " << NameOf(call);
    }
  }
  std::printf("%s: faults of%s\n", writer.name, counts.c_str());
  fs::remove_all(FreshFolder());
}

}  // namespace dp_bench
