// Runs test bodies in separate processes: to be killed, or with a separate disk.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace dp_bench {

inline constexpr int kCannotMount = 77;

/// Runs `body` in a forked process and returns its id. The caller must have no threads. The exit
/// code is 0, or 1 after an exception or a failed expectation.
inline pid_t StartChild(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(1);
  }
  std::fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

/// Returns the status of waitpid.
inline int StatusOf(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

/// Mounts a disk of `bytes` at `folder`, for this process and its children only. Returns whether
/// that worked: users other than root need user namespaces for it.
inline bool MountSmallDisk(const std::filesystem::path& folder, std::size_t bytes) {
  const std::string map = "0 " + std::to_string(getuid()) + " 1";
  if (geteuid() == 0) {
    if (unshare(CLONE_NEWNS) != 0) return false;
  } else {
    if (unshare(CLONE_NEWNS | CLONE_NEWUSER) != 0) return false;
    std::ofstream("/proc/self/uid_map") << map;
  }
  const std::string size = "size=" + std::to_string(bytes);
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, size.c_str()) == 0;
}

/// Changes its size, or makes all its files read-only.
inline void ResizeSmallDisk(const std::filesystem::path& folder, std::size_t bytes) {
  const std::string size = "size=" + std::to_string(bytes);
  EXPECT_EQ(mount("tmpfs", folder.c_str(), "tmpfs", MS_REMOUNT, size.c_str()), 0);
}
inline void MakeSmallDiskReadOnly(const std::filesystem::path& folder) {
  EXPECT_EQ(mount("tmpfs", folder.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr), 0);
}

/// Runs `body` with `folder` as a disk of `bytes`; skips the test if that is not possible.
inline void OnSmallDisk(const std::filesystem::path& folder, std::size_t bytes,
                        const std::function<void()>& body) {
  const int status = StatusOf(StartChild([&] {
    if (!MountSmallDisk(folder, bytes)) _exit(kCannotMount);
    body();
  }));
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kCannotMount) GTEST_SKIP() << "no disk can be mounted here";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "an expectation failed on the small disk";
}

}  // namespace dp_bench
