// A zarr hierarchy in a folder. Names from files cannot leave it, but links in it may: caches of
// model hubs, DVC and git-annex keep the files elsewhere. The user named this folder, and a
// program that can put a link there can also put the file there. Only regular files are read.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

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
  explicit FolderStore(std::filesystem::path path)
      : path_(std::move(path)), root_(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (!root_.is_open()) Fail("", errno);
  }

  std::optional<std::uint64_t> Peek(const std::string& name,
                                    std::span<std::byte> head) const override {
    const FileDescriptor file = Open(name);
    if (!file.is_open()) return std::nullopt;
    const std::uint64_t size = SizeOf(file, name);
    ReadExactly(file, name, 0, head.first(std::min<std::uint64_t>(head.size(), size)));
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
    ReadExactly(file, name, 0, *out);
  }

  void ReadPart(const std::string& name, std::uint64_t offset,
                std::span<std::byte> out) const override {
    const FileDescriptor file = Open(name);
    if (!file.is_open()) Fail(name, ENOENT);
    SizeOf(file, name);  // a regular file
    ReadExactly(file, name, offset, out);
  }

  std::vector<std::string> ListFolders(const std::string& folder) const override {
    FileDescriptor file =
        folder.empty() ? FileDescriptor(::openat(root_.get(), ".", kFlags)) : Open(folder);
    std::vector<std::string> names;
    if (!file.is_open()) return names;
    const std::unique_ptr<DIR, CloseFolder> entries(::fdopendir(file.get()));
    if (entries == nullptr) Fail(folder, errno);
    file.Release();  // fdopendir took it over
    while (const dirent* entry = ::readdir(entries.get())) {
      struct stat status = {};
      if (entry->d_name[0] != '.' &&
          ::fstatat(::dirfd(entries.get()), entry->d_name, &status, 0) == 0 &&
          S_ISDIR(status.st_mode)) {
        names.emplace_back(entry->d_name);
      }
    }
    std::ranges::sort(names);
    return names;
  }

  std::string Describe(std::string_view name) const override {
    return (name.empty() ? path_ : path_ / name).string();
  }

 private:
  [[noreturn]] void Fail(const std::string& name, int error) const {
    throw Error(ErrorCode::kData, fmt::format("cannot read {}: {}", Describe(name),
                                              std::generic_category().message(error)));
  }

  // Not open if there is no such file.
  FileDescriptor Open(const std::string& name) const {
    RequireSafeName(name);
    FileDescriptor file(::openat(root_.get(), name.c_str(), kFlags));
    if (file.is_open()) return file;
    const int error = errno;
    if (error != ENOENT && error != ENOTDIR) Fail(name, error);
    struct stat status = {};
    if (::fstatat(root_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
      throw Error(ErrorCode::kData,
                  fmt::format("{} is a link to a file that does not exist; fetch the content of "
                              "the data set first (git annex get, dvc pull, git lfs pull)",
                              Describe(name)));
    }
    return file;
  }

  std::uint64_t SizeOf(const FileDescriptor& file, const std::string& name) const {
    struct stat status = {};
    if (::fstat(file.get(), &status) != 0) Fail(name, errno);
    if (!S_ISREG(status.st_mode)) {
      throw Error(ErrorCode::kData, fmt::format("{} is not a regular file", Describe(name)));
    }
    return static_cast<std::uint64_t>(status.st_size);
  }

  void ReadExactly(const FileDescriptor& file, const std::string& name, std::uint64_t offset,
                   std::span<std::byte> out) const {
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t n = ::pread(file.get(), out.data() + done, out.size() - done,
                                static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) Fail(name, errno);
      if (n == 0) {
        throw Error(ErrorCode::kData, fmt::format("{} ended at byte {} while it was read",
                                                  Describe(name), offset + done));
      }
      done += static_cast<std::size_t>(n);
    }
  }

  std::filesystem::path path_;
  FileDescriptor root_;
};

}  // namespace

std::unique_ptr<Store> OpenFolderStore(const std::filesystem::path& path) {
  return std::make_unique<FolderStore>(path);
}

}  // namespace dp_bench::zarr
