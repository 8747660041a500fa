// A zarr hierarchy in a folder. The kernel keeps every look-up beneath the folder (openat2,
// RESOLVE_BENEATH); if it cannot, all symbolic links are refused.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "data/zarr/metadata.h"
#include "data/zarr/store.h"
#include "dp_bench/error.h"

namespace dp_bench::zarr {
namespace {

constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;  // a FIFO must not block

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void Release() { fd_ = -1; }

 private:
  int fd_;
};

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

class FolderStore final : public Store {
 public:
  FolderStore(std::filesystem::path path, bool may_use_openat2)
      : path_(std::move(path)),
        root_(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        may_use_openat2_(may_use_openat2) {
    if (!root_.is_open()) Fail("", errno);
  }

  std::optional<std::uint64_t> Peek(const std::string& name,
                                    std::span<std::byte> head) const override {
    const FileDescriptor file = Open(name);
    if (!file.is_open()) return std::nullopt;
    const std::uint64_t size = SizeOf(file, name);
    ReadExactly(file, name, head.first(std::min<std::uint64_t>(head.size(), size)));
    return size;
  }

  void Read(const std::string& name, std::uint64_t max_bytes,
            std::vector<std::byte>* out) const override {
    const FileDescriptor file = Open(name);
    if (!file.is_open()) Fail(name, ENOENT);
    const std::uint64_t size = SizeOf(file, name);
    if (size > max_bytes) {
      throw Error(ErrorCode::kData, fmt::format("{} has {} bytes; at most {} are expected here",
                                                Describe(name), size, max_bytes));
    }
    out->resize(size);
    ReadExactly(file, name, *out);
  }

  std::vector<std::string> ListArrays(const std::string& folder) const override {
    FileDescriptor file = Open(folder);
    std::vector<std::string> names;
    if (!file.is_open()) return names;
    const std::unique_ptr<DIR, CloseFolder> entries(::fdopendir(file.get()));
    if (entries == nullptr) Fail(folder, errno);
    file.Release();  // fdopendir took it over
    while (const dirent* entry = ::readdir(entries.get())) {
      const std::string name = entry->d_name;
      if (name.starts_with('.')) continue;
      if (Peek(fmt::format("{}/{}/{}", folder, name, kArrayFile), {})) names.push_back(name);
    }
    return names;
  }

  std::string Describe(std::string_view name) const override { return (path_ / name).string(); }

 private:
  [[noreturn]] void Fail(const std::string& name, int error) const {
    const char* hint = "";
    if (error == EXDEV) hint = "; the name or a link in it leaves the zarr folder";
    if (error == ELOOP) hint = "; it is a symbolic link";
    throw Error(ErrorCode::kData, fmt::format("cannot read {}: {}{}", Describe(name),
                                              std::generic_category().message(error), hint));
  }

  // Not open if there is no such file.
  FileDescriptor Open(const std::string& name) const {
    RequireSafeName(name);
    int error = ENOSYS;
    FileDescriptor file;
    if (may_use_openat2_) file = OpenBeneath(name, &error);
    // kernels before 5.6 do not know the call, some sandboxes forbid it
    if (error == ENOSYS || error == EPERM) file = OpenWithoutLinks(name, &error);
    if (error != 0 && error != ENOENT && error != ENOTDIR) Fail(name, error);
    return file;
  }

  FileDescriptor OpenBeneath(const std::string& name, int* error) const {
    open_how how = {};
    how.flags = kFlags;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    FileDescriptor file;
    do {  // EAGAIN: folders are being renamed at this moment
      file = FileDescriptor(
          static_cast<int>(::syscall(SYS_openat2, root_.get(), name.c_str(), &how, sizeof(how))));
      *error = file.is_open() ? 0 : errno;
    } while (*error == EAGAIN);
    return file;
  }

  FileDescriptor OpenWithoutLinks(const std::string& name, int* error) const {
    FileDescriptor folder;
    std::size_t begin = 0;
    while (true) {
      const std::size_t slash = name.find('/', begin);
      const bool is_last = slash == std::string::npos;
      const std::string part = name.substr(begin, is_last ? slash : slash - begin);
      const int flags = kFlags | O_NOFOLLOW | (is_last ? 0 : O_DIRECTORY);
      const int parent = folder.is_open() ? folder.get() : root_.get();
      FileDescriptor next(::openat(parent, part.c_str(), flags));
      *error = next.is_open() ? 0 : errno;
      if (!is_last && *error == ENOTDIR && IsLink(parent, part)) *error = ELOOP;
      if (is_last || *error != 0) return next;
      folder = std::move(next);
      begin = slash + 1;
    }
  }

  static bool IsLink(int parent, const std::string& part) {
    struct stat status = {};
    return ::fstatat(parent, part.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISLNK(status.st_mode);
  }

  std::uint64_t SizeOf(const FileDescriptor& file, const std::string& name) const {
    struct stat status = {};
    if (::fstat(file.get(), &status) != 0) Fail(name, errno);
    if (!S_ISREG(status.st_mode)) {
      throw Error(ErrorCode::kData, fmt::format("{} is not a regular file", Describe(name)));
    }
    return static_cast<std::uint64_t>(status.st_size);
  }

  void ReadExactly(const FileDescriptor& file, const std::string& name,
                   std::span<std::byte> out) const {
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t n = ::read(file.get(), out.data() + done, out.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) Fail(name, errno);
      if (n == 0) {
        throw Error(ErrorCode::kData,
                    fmt::format("{} ended at byte {} while it was read", Describe(name), done));
      }
      done += static_cast<std::size_t>(n);
    }
  }

  std::filesystem::path path_;
  FileDescriptor root_;
  bool may_use_openat2_;
};

}  // namespace

std::unique_ptr<Store> OpenFolderStore(const std::filesystem::path& path, bool may_use_openat2) {
  return std::make_unique<FolderStore>(path, may_use_openat2);
}

}  // namespace dp_bench::zarr
