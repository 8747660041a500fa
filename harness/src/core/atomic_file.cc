// The POSIX calls behind core/atomic_file.h.
#include "core/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <map>
#include <mutex>
#include <random>
#include <system_error>
#include <utility>

#include "core/regular_file.h"
#include "core/system_error.h"
#include "dp_bench/error.h"

namespace dp_bench::core {

namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTemporaryMark = ".tmp.";

int Open(const fs::path& path, int flags, std::string_view what) {
  const int descriptor =
      Uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (descriptor < 0) ThrowErrno(what, path);
  return descriptor;
}

void Fsync(const fs::path& path, int flags) {
  const Descriptor descriptor(Open(path, flags, "open for fsync"));
  if (Uninterrupted([&] { return ::fsync(descriptor.value()); }) != 0) ThrowErrno("fsync", path);
}

// The entries of a folder. The iterators of the standard library report errors without a message.
std::vector<fs::directory_entry> EntriesBelow(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    entries.push_back(*it);
  }
  if (error) ThrowSystemError("list", folder, error);
  return entries;
}

struct UnfinishedPaths {
  std::mutex mutex;
  std::multimap<fs::path, int> locks;  // by path: the descriptor that holds its lock, or -1
};

// Never destroyed: a signal may arrive while the program exits.
UnfinishedPaths& AllUnfinished() {
  static auto* const all = new UnfinishedPaths;
  return *all;
}

// Locks an unfinished folder until it is finished or the process ends.
void MarkAsAlive(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::flock(descriptor, LOCK_EX | LOCK_NB);
  UnfinishedPaths& all = AllUnfinished();
  const std::lock_guard lock(all.mutex);
  all.locks.find(folder)->second = descriptor;
}

fs::path FolderOf(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

fs::path LinkOf(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

bool HasName(int descriptor) {
  struct stat status = {};
  return ::fstat(descriptor, &status) != 0 || status.st_nlink > 0;
}

bool TryName(int descriptor, const fs::path& name) {
  return ::linkat(AT_FDCWD, LinkOf(descriptor).c_str(), AT_FDCWD, name.c_str(),
                  AT_SYMLINK_FOLLOW) == 0;
}

int OpenWithoutName(const fs::path& folder) {
  return Uninterrupted(
      [&] { return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666); });
}

void CopyTo(const fs::path& copy, int descriptor) {
  const Descriptor to(Open(copy, O_WRONLY | O_CREAT | O_EXCL, "create"));
  std::vector<std::byte> block(std::size_t{1} << 20);
  off_t offset = 0;
  while (true) {
    const ssize_t n_bytes =
        Uninterrupted([&] { return ::pread(descriptor, block.data(), block.size(), offset); });
    if (n_bytes < 0) ThrowErrno("read back", copy);
    if (n_bytes == 0) break;
    WriteAll(to.value(), std::span(block).first(static_cast<std::size_t>(n_bytes)), copy);
    offset += n_bytes;
  }
  if (Uninterrupted([&] { return ::fsync(to.value()); }) != 0) ThrowErrno("fsync", copy);
}

void MoveInto(const fs::path& path, int descriptor, const fs::path& temporary) {
  if (!HasName(descriptor)) {
    if (TryName(descriptor, path)) return;
    // some sandboxes open a file without a name, and refuse to name it
    if (!TryName(descriptor, temporary)) CopyTo(temporary, descriptor);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) ThrowErrno("rename to", path);
}

// Opens a new file in the folder of `temporary`, for reading and writing.
int OpenUnnamed(const fs::path& temporary) {
  const fs::path folder = FolderOf(temporary);
  int descriptor = -1;
  // a name that is too long would show only when the content is complete
  if (temporary.filename().native().size() <= NAME_MAX) {
    descriptor = OpenWithoutName(folder);
    const bool is_unknown = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
    if (descriptor < 0 && !is_unknown) ThrowErrno("create", temporary);
  }
  if (descriptor < 0) descriptor = Open(temporary, O_RDWR | O_CREAT | O_EXCL, "create");
  ::flock(descriptor, LOCK_EX | LOCK_NB);  // shows RemoveLeftOvers that its writer is alive
  return descriptor;
}

}  // namespace

fs::path TemporaryFor(const fs::path& path) {
  std::random_device device;
  return FolderOf(path) / fmt::format("{}{}{:08x}{:08x}", path.filename().string(), kTemporaryMark,
                                      device(), device());
}

AtomicFile::AtomicFile(fs::path path)
    : path_(std::move(path)),
      temporary_(TemporaryFor(path_)),
      unfinished_(temporary_),
      descriptor_(OpenUnnamed(temporary_)) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::Write(std::span<const std::byte> bytes) { WriteAll(descriptor_, bytes, path_); }

void AtomicFile::Write(std::string_view text) { Write(std::as_bytes(std::span(text))); }

fs::path AtomicFile::path_to_open() const {
  return HasName(descriptor_) ? temporary_ : LinkOf(descriptor_);
}

void AtomicFile::Commit() {
  DPB_ASSERT(descriptor_ >= 0);
  PublishUnnamed(descriptor_, temporary_, path_);
  ::close(std::exchange(descriptor_, -1));
}

void WriteFileAtomically(const fs::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.Write(bytes);
  file.Commit();
}

void WriteFileAtomically(const fs::path& path, std::string_view text) {
  WriteFileAtomically(path, std::as_bytes(std::span(text)));
}

AtomicFolder::AtomicFolder(fs::path path)
    : path_(std::move(path)), temporary_(TemporaryFor(path_)), unfinished_(temporary_) {
  RemoveLeftOvers(path_);  // first, because it takes every folder without a lock
  CreateFolders(temporary_);
  MarkAsAlive(temporary_);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;  // a left-over is recognized by its name and removed later
  if (!is_committed_) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::Commit() {
  DPB_ASSERT(!is_committed_);
  for (const fs::directory_entry& entry : EntriesBelow(temporary_)) {
    std::error_code ignored;  // the error shows up when the file is opened
    if (entry.is_directory(ignored)) {
      FsyncFolder(entry.path());
    } else {
      FsyncFile(entry.path());
    }
  }
  FsyncFolder(temporary_);
  RenameDurably(temporary_, path_);
  is_committed_ = true;
}

void WriteNewFile(const fs::path& path, std::span<const std::byte> bytes) {
  const Descriptor descriptor(Open(path, O_WRONLY | O_CREAT | O_TRUNC, "create"));
  WriteAll(descriptor.value(), bytes, path);
}

void WriteNewFile(const fs::path& path, std::string_view text) {
  WriteNewFile(path, std::as_bytes(std::span(text)));
}

void FsyncFile(const fs::path& path) { Fsync(path, O_RDONLY); }

void FsyncFolder(const fs::path& folder) {
  const Descriptor descriptor(Open(folder, O_RDONLY | O_DIRECTORY, "open for fsync"));
  if (Uninterrupted([&] { return ::fsync(descriptor.value()); }) == 0) return;
  // some file systems know it for files only, such as the shared folders of VirtualBox
  if (errno != EINVAL && errno != EOPNOTSUPP) ThrowErrno("fsync", folder);
}

void RenameDurably(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    ThrowErrno(fmt::format("rename '{}' to", from.string()), to);
  }
  FsyncFolder(FolderOf(to));
}

bool IsTemporaryName(std::string_view name) {
  const std::size_t mark = name.rfind(kTemporaryMark);
  if (mark == std::string_view::npos) return false;
  const std::string_view random = name.substr(mark + kTemporaryMark.size());
  return random.size() == 16 && std::ranges::all_of(random, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

void RemoveTemporaryFiles(const fs::path& folder) {
  for (const fs::directory_entry& entry : EntriesBelow(folder)) {
    if (IsTemporaryName(entry.path().filename().string())) RemoveAll(entry.path());
  }
}

void RemoveLeftOvers(const fs::path& path) {
  const std::string beginning = path.filename().string() + std::string(kTemporaryMark);
  std::error_code error;  // an error shows up when the new content is written
  for (const fs::directory_entry& entry : fs::directory_iterator(FolderOf(path), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(beginning) || !IsTemporaryName(name)) continue;
    const Descriptor left(
        ::open(entry.path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    const bool is_left = left.value() >= 0 && ::flock(left.value(), LOCK_EX | LOCK_NB) == 0;
    if (is_left) fs::remove_all(entry.path(), error);
  }
}

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  if (error == std::errc::no_such_file_or_directory) return entries;
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    entries.push_back(it->path());
  }
  if (error) ThrowSystemError("list the folder", folder, error);
  std::ranges::sort(entries);
  return entries;
}

fs::path NameOf(const fs::path& path) {
  if (path.empty()) return {};  // absolute() throws
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal.filename() : normal.parent_path().filename();
}

fs::path Beside(const fs::path& path, std::string_view ending) {
  fs::path result = path.has_filename() ? path : path.parent_path();
  result += ending;
  return result;
}

void CreateFolders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) ThrowSystemError("create the folder", folder, error);
}

void RemoveAll(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) ThrowSystemError("remove", path, error);
}

std::vector<std::byte> ReadFile(const fs::path& path, std::size_t max_bytes) {
  RegularFile file(path, max_bytes);
  std::vector<std::byte> bytes(file.size());
  bytes.resize(file.Read(bytes));
  return bytes;
}

std::string ReadTextFile(const fs::path& path, std::size_t max_bytes) {
  RegularFile file(path, max_bytes);
  std::string text(file.size(), '\0');
  text.resize(file.Read(std::as_writable_bytes(std::span(text))));
  return text;
}

Unfinished::Unfinished(std::filesystem::path path) : path_(std::move(path)) {
  UnfinishedPaths& all = AllUnfinished();
  const std::lock_guard lock(all.mutex);
  all.locks.emplace(path_, -1);
}

Unfinished::~Unfinished() {
  UnfinishedPaths& all = AllUnfinished();
  const std::lock_guard lock(all.mutex);
  const auto entry = all.locks.find(path_);
  if (entry->second >= 0) ::close(entry->second);
  all.locks.erase(entry);
}

void RemoveUnfinishedAndHold() {
  UnfinishedPaths& all = AllUnfinished();
  all.mutex.lock();
  for (const auto& [path, lock] : all.locks) {
    std::error_code ignored;  // the program ends with the signal that it received
    std::filesystem::remove_all(path, ignored);
  }
}

void PublishUnnamed(int descriptor, const fs::path& temporary, const fs::path& path) {
  if (Uninterrupted([&] { return ::fsync(descriptor); }) != 0) ThrowErrno("fsync", path);
  {
    // so that a signal that ends the program comes before the first name, or after the last
    const std::lock_guard lock(AllUnfinished().mutex);
    MoveInto(path, descriptor, temporary);
  }
  FsyncFolder(FolderOf(path));
}

}  // namespace dp_bench::core
