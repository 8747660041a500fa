// POSIX calls behind core/folder_lock.h.
#include "core/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
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

int CreateLockFile(const fs::path& file) {
  return Uninterrupted([&] {
    return ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  });
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, LockCall lock)
    : folder_(folder), descriptor_(Uninterrupted([&] {
        return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      })) {
  if (descriptor_.value() < 0) ThrowErrno("lock the folder", folder);
  const LockCall call = lock != nullptr ? lock : &::flock;
  if (Uninterrupted([&] { return call(descriptor_.value(), LOCK_EX | LOCK_NB); }) == 0) return;
  const std::error_code error(errno, std::generic_category());
  if (HasNoLocks(error)) {
    LockByFile(error);
    return;
  }
  if (error != std::errc::operation_would_block) {
    ThrowSystemError("lock the folder", folder, error);
  }
  throw UsageError("another process writes into '{}'; wait for it, or give another folder",
                   folder.string());
}

void FolderLock::LockByFile(const std::error_code& why) {
  // the processes of this machine decide about lock files one after the other: they lock "/", whose
  // file system has flock nearly everywhere
  const Descriptor root(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool is_my_turn =
      root.value() >= 0 && Uninterrupted([&] { return ::flock(root.value(), LOCK_EX); }) == 0;
  const fs::path file = folder_ / kLockFile;
  int descriptor = CreateLockFile(file);
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
    descriptor = CreateLockFile(file);
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
