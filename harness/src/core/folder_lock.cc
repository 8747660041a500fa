// POSIX calls behind core/folder_lock.h.
#include "core/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

#include "core/console.h"
#include "core/errors.h"

namespace dp_bench::core {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxOwnerBytes = 1000;

// The time at which a process started, which tells it from a later one with its number; empty if
// there is no such process (proc(5), field 22 of stat).
std::string StartOf(pid_t process) {
  std::ifstream stat(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(stat, line);
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return fields ? field : "";
}

// The machine since it started, and the part of it whose processes this one can see.
std::string MachineId() {
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code unknown;
  return fmt::format("{} {} {}", host, boot,
                     fs::read_symlink("/proc/self/ns/pid", unknown).string());
}

std::string OwnerText(pid_t process) {
  return fmt::format("{} {} {}\n", MachineId(), process, StartOf(process));
}

std::string ReadOwner(const fs::path& file) {
  std::ifstream stream(file);
  std::string owner(kMaxOwnerBytes, '\0');
  stream.read(owner.data(), static_cast<std::streamsize>(owner.size()));
  owner.resize(static_cast<std::size_t>(stream.gcount()));
  return owner;
}

// Whether a process of this machine wrote this and has ended since.
bool IsGone(const std::string& owner) {
  std::istringstream fields(owner);
  std::string host, boot, space;
  pid_t process = 0;
  if (!(fields >> host >> boot >> space >> process) || process <= 0) return false;
  return host + " " + boot + " " + space == MachineId() && owner != OwnerText(process);
}

bool HasNoLocks(const std::error_code& error) {
  const int code = error.value();
  return code == ENOLCK || code == ENOSYS || code == EOPNOTSUPP || code == ENOTSUP;
}

// File systems that several machines may mount and on which flock of a folder stays on one of
// them: their clients in Linux pass on the locks of files only. FUSE stands for many, such as sshfs
// and virtiofs. Numbers without a name are those of the file systems' own sources.
constexpr std::array<std::uint32_t, 10> kSharedFileSystems = {NFS_SUPER_MAGIC,
                                                              SMB_SUPER_MAGIC,
                                                              SMB2_SUPER_MAGIC,
                                                              CIFS_SUPER_MAGIC,
                                                              V9FS_MAGIC,
                                                              AFS_SUPER_MAGIC,
                                                              FUSE_SUPER_MAGIC,
                                                              0x0BD00BD0 /* Lustre */,
                                                              0x19830326 /* BeeGFS */,
                                                              0x47504653 /* GPFS */};

bool IsShared(int descriptor) {
  struct statfs found {};
  if (Uninterrupted([&] { return ::fstatfs(descriptor, &found); }) != 0) return false;
  return std::ranges::count(kSharedFileSystems, static_cast<std::uint32_t>(found.f_type)) > 0;
}

int OpenLockFile(const fs::path& file, int flags) {
  return Uninterrupted(
      [&] { return ::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0666); });
}

// Empty if the lock is taken now, else why it cannot be; throws if another process has it.
std::error_code TryLock(const LockCalls& calls, int descriptor, const fs::path& folder) {
  if (Uninterrupted([&] { return calls.lock(descriptor, LOCK_EX | LOCK_NB); }) == 0) return {};
  const std::error_code error(errno, std::generic_category());
  if (HasNoLocks(error) || error.value() == ESTALE) return error;
  if (error != std::errc::operation_would_block) {
    ThrowSystemError("lock the folder", folder, error);
  }
  throw UsageError("another process writes into '{}'; wait for it, or give another folder",
                   folder.string());
}

// Whether the path still is the opened file. It is opened again, because a network file system
// asks its server only then.
bool IsStill(int descriptor, const fs::path& path) {
  const Descriptor again(OpenLockFile(path, 0));
  struct stat opened {};
  struct stat now {};
  return again.value() >= 0 && ::fstat(descriptor, &opened) == 0 &&
         ::fstat(again.value(), &now) == 0 && opened.st_ino == now.st_ino;
}

}  // namespace

LockCalls LockCalls::OfTheSystem() { return {.lock = &::flock, .is_shared = &IsShared}; }

FolderLock::FolderLock(const fs::path& folder, const LockCalls& calls)
    : folder_(folder), descriptor_(Uninterrupted([&] {
        return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      })) {
  if (descriptor_.value() < 0) ThrowErrno("lock the folder", folder);
  if (const auto error = TryLock(calls, descriptor_.value(), folder)) {
    LockByFile(error);
  } else if (calls.is_shared(descriptor_.value())) {
    LockFile(calls);
  }
}

void FolderLock::LockFile(const LockCalls& calls) {
  const fs::path file = folder_ / kLockFile;
  while (true) {
    bool is_new = true;
    int opened = OpenLockFile(file, O_CREAT | O_EXCL);
    if (opened < 0 && errno == EEXIST) {
      is_new = false;
      opened = OpenLockFile(file, 0);
      if (opened < 0 && errno == ENOENT) continue;  // its owner has just ended
    }
    if (opened < 0) ThrowErrno("lock the folder with the file", file);
    locked_file_.emplace(opened);
    if (const auto error = TryLock(calls, opened, folder_)) {
      if (error.value() == ESTALE) continue;  // its owner removed it meanwhile
      if (is_new) RemoveAll(file);
      LockByFile(error);
      return;
    }
    if (IsStill(opened, file)) break;  // else its owner removed it between the two calls
  }
  file_.emplace(file);
}

void FolderLock::LockByFile(const std::error_code& why) {
  // the processes of this machine decide about lock files one after the other: they lock "/", whose
  // file system has flock nearly everywhere
  const Descriptor root(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool is_my_turn =
      root.value() >= 0 && Uninterrupted([&] { return ::flock(root.value(), LOCK_EX); }) == 0;
  const fs::path file = folder_ / kLockFile;
  int descriptor = OpenLockFile(file, O_CREAT | O_EXCL);
  if (descriptor < 0 && errno == EEXIST) {
    const std::string owner = ReadOwner(file);
    if (!is_my_turn || !IsGone(owner)) {
      throw UsageError(
          "another process writes into '{}': {}. Wait for it, or give another folder. If that "
          "process is gone, remove '{}'.",
          folder_.string(), owner.empty() ? "it is not named" : owner.substr(0, owner.find('\n')),
          file.string());
    }
    LogWarning("the process that wrote into '{}' is gone: its lock is taken over",
               folder_.string());
    RemoveAll(file);
    descriptor = OpenLockFile(file, O_CREAT | O_EXCL);
  }
  if (descriptor < 0) ThrowErrno("lock the folder with the file", file);
  file_.emplace(file);
  const std::string owner = OwnerText(::getpid());
  const bool is_written =
      ::write(descriptor, owner.data(), owner.size()) == static_cast<ssize_t>(owner.size());
  const std::error_code fault(errno, std::generic_category());
  ::close(descriptor);
  if (!is_written) {
    RemoveAll(file);
    ThrowSystemError("write", file, fault);
  }
  LogWarning("the file system of '{}' has no flock ({}): the lock is the file {} there",
             folder_.string(), why.message(), kLockFile);
}

FolderLock::~FolderLock() {
  std::error_code gone;
  if (file_) fs::remove(folder_ / kLockFile, gone);
}

void FolderLock::SyncFileSystem() const {
  if (Uninterrupted([this] { return ::syncfs(descriptor_.value()); }) == 0) return;
  ThrowErrno("write to disk the file system of", folder_);
}

}  // namespace dp_bench::core
