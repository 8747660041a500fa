// A zarr hierarchy in a folder. Names from files cannot leave it, but links in it may: caches of
// model hubs, DVC and git-annex keep the files elsewhere. The user named this folder, and a
// program that can put a link there can also put the file there. Only regular files are read.
#include "data/zarr/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

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
                              "the dataset first (git annex get, dvc pull, git lfs pull)",
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

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};

// The error of a libzip call.
class ZipError {
 public:
  ZipError() { zip_error_init(&error_); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  ~ZipError() { zip_error_fini(&error_); }
  zip_error_t* get() { return &error_; }

 private:
  zip_error_t error_;
};

class ZipStore final : public Store {
 public:
  // Takes ownership of the source.
  ZipStore(std::filesystem::path path, zip_source_t* source, zip_error_t* error)
      : path_(std::move(path)) {
    if (source != nullptr) archive_.reset(zip_open_from_source(source, ZIP_RDONLY, error));
    if (archive_ != nullptr) return;
    const std::string reason = zip_error_strerror(error);
    if (source != nullptr) zip_source_free(source);
    throw Error(ErrorCode::kData,
                fmt::format("cannot read {} as a zip archive: {}", path_.string(), reason));
  }

  std::optional<std::uint64_t> Peek(const std::string& name,
                                    std::span<std::byte> head) const override {
    const std::lock_guard lock(mutex_);
    const std::optional<zip_stat_t> status = Find(name);
    if (!status) return std::nullopt;
    const Entry entry = OpenEntry(name, *status);
    ReadExactly(entry.get(), name, head.first(std::min<std::uint64_t>(head.size(), status->size)));
    return status->size;
  }

  void Read(const std::string& name, std::uint64_t max_bytes,
            std::vector<std::byte>* out) const override {
    const std::lock_guard lock(mutex_);
    const std::optional<zip_stat_t> status = Find(name);
    if (!status) throw Error(ErrorCode::kData, Describe(name) + " does not exist");
    if (status->size > max_bytes) {
      throw Error(ErrorCode::kData, fmt::format("{} has {} bytes; at most {} are expected here",
                                                Describe(name), status->size, max_bytes));
    }
    const Entry entry = OpenEntry(name, *status);
    out->resize(status->size);
    ReadExactly(entry.get(), name, *out);

    // libzip compares the checksum at the end of the entry
    std::byte extra;
    if (zip_fread(entry.get(), &extra, 1) != 0) {
      throw Error(ErrorCode::kData,
                  fmt::format("{} does not end after {} bytes with a matching checksum: {}",
                              Describe(name), status->size, zip_file_strerror(entry.get())));
    }
  }

  void ReadPart(const std::string& name, std::uint64_t offset,
                std::span<std::byte> out) const override {
    const std::lock_guard lock(mutex_);
    const std::optional<zip_stat_t> status = Find(name);
    if (!status) throw Error(ErrorCode::kData, Describe(name) + " does not exist");
    const Entry entry = OpenEntry(name, *status);
    if (zip_fseek(entry.get(), static_cast<zip_int64_t>(offset), SEEK_SET) != 0) {
      throw Error(ErrorCode::kData,
                  fmt::format("{} cannot be read in parts: shards must be stored without "
                              "compression in a zip archive (zip -0), or unpack it",
                              Describe(name)));
    }
    ReadExactly(entry.get(), name, out);
  }

  std::vector<std::string> ListFolders(const std::string& folder) const override {
    const std::string begin = folder.empty() ? "" : folder + "/";
    const std::lock_guard lock(mutex_);
    std::set<std::string, std::less<>> names;
    for (zip_int64_t i = 0; i < zip_get_num_entries(archive_.get(), 0); ++i) {
      const char* const text = zip_get_name(archive_.get(), static_cast<zip_uint64_t>(i), 0);
      std::string_view name = text != nullptr ? text : "";
      if (!name.starts_with(begin)) continue;
      name.remove_prefix(begin.size());
      const std::size_t slash = name.find('/');
      if (slash == std::string_view::npos || slash == 0 || name.front() == '.') continue;
      name = name.substr(0, slash);
      if (!names.contains(name)) names.emplace(name);
    }
    return {names.begin(), names.end()};
  }

  std::string Describe(std::string_view name) const override {
    return name.empty() ? path_.string() : fmt::format("{}:{}", path_.string(), name);
  }

 private:
  using Entry = std::unique_ptr<zip_file_t, CloseEntry>;

  std::optional<zip_stat_t> Find(const std::string& name) const {
    RequireSafeName(name);
    zip_stat_t status;
    zip_stat_init(&status);
    if (zip_stat(archive_.get(), name.c_str(), 0, &status) != 0) return std::nullopt;
    if ((status.valid & ZIP_STAT_SIZE) == 0 || (status.valid & ZIP_STAT_INDEX) == 0) {
      throw Error(ErrorCode::kData, fmt::format("{} does not say its size", Describe(name)));
    }
    return status;
  }

  Entry OpenEntry(const std::string& name, const zip_stat_t& status) const {
    Entry entry(zip_fopen_index(archive_.get(), status.index, 0));
    if (entry == nullptr) {
      throw Error(ErrorCode::kData,
                  fmt::format("cannot read {}: {}", Describe(name), zip_strerror(archive_.get())));
    }
    return entry;
  }

  void ReadExactly(zip_file_t* entry, const std::string& name, std::span<std::byte> out) const {
    std::size_t done = 0;
    while (done < out.size()) {
      const zip_int64_t n = zip_fread(entry, out.data() + done, out.size() - done);
      if (n <= 0) {
        throw Error(ErrorCode::kData,
                    fmt::format("{} breaks off at byte {} of {}: {}", Describe(name), done,
                                out.size(), zip_file_strerror(entry)));
      }
      done += static_cast<std::size_t>(n);
    }
  }

  std::filesystem::path path_;
  mutable std::mutex mutex_;  // the archive is used by one thread at a time
  std::unique_ptr<zip_t, CloseArchive> archive_;
};

}  // namespace

std::unique_ptr<Store> OpenZipStore(const std::filesystem::path& path) {
  ZipError error;
  zip_source_t* const source = zip_source_file_create(path.c_str(), 0, -1, error.get());
  return std::make_unique<ZipStore>(path, source, error.get());
}

std::unique_ptr<Store> OpenZipStore(std::span<const std::byte> archive,
                                    const std::filesystem::path& path) {
  ZipError error;
  zip_source_t* const source =
      zip_source_buffer_create(archive.data(), archive.size(), 0, error.get());
  return std::make_unique<ZipStore>(path, source, error.get());
}

std::unique_ptr<Store> OpenStore(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) return std::make_unique<FolderStore>(path);
  if (std::filesystem::is_regular_file(status)) return OpenZipStore(path);
  throw Error(
      ErrorCode::kData,
      fmt::format("no zarr folder or .zarr.zip at '{}'{}; `scripts/get_data.sh pusht` fetches "
                  "the PushT demonstrations, `dp_bench collect` makes data with an env's expert",
                  path.string(), error ? " (" + error.message() + ")" : ""));
}

void RequireSafeName(std::string_view name) {
  std::string_view rest = name;
  bool is_safe = name.find('\0') == std::string_view::npos;
  while (is_safe) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    is_safe = !part.empty() && part != "." && part != "..";
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  if (is_safe) return;

  std::string shown(name.substr(0, 80));
  std::replace(shown.begin(), shown.end(), '\0', '?');
  throw Error(ErrorCode::kData,
              fmt::format("'{}' is not the name of an array; expected a relative path such as "
                          "data/action, which cannot leave the zarr folder",
                          shown));
}

}  // namespace dp_bench::zarr
