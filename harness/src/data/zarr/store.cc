// A zarr hierarchy in a folder. Names from files cannot leave it, but links in it may: caches of
// model hubs, DVC and git-annex keep the files elsewhere. The user named this folder, and a
// program that can put a link there can also put the file there. Only regular files are read.
#include "data/zarr/store.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "core/errors.h"
#include "core/regular_file.h"

namespace dp_bench::zarr {
namespace {

namespace fs = std::filesystem;

class FolderStore final : public Store {
 public:
  explicit FolderStore(fs::path path) : path_(std::move(path)) {}

  std::vector<std::string> ListFolders(const std::string& folder) const override {
    if (!folder.empty()) RequireSafeName(folder);
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(path_ / folder, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      std::error_code ignored;  // of links to nothing
      if (!name.starts_with('.') && entry->is_directory(ignored)) names.push_back(name);
    }
    if (error && error != std::errc::no_such_file_or_directory) {
      throw DataError("cannot read {}: {}", Describe(folder), error.message());
    }
    std::ranges::sort(names);
    return names;
  }

  std::string Describe(std::string_view name) const override {
    return (name.empty() ? path_ : path_ / name).string();
  }

 private:
  class FolderFile final : public File {
   public:
    explicit FolderFile(const fs::path& path) : file_(path) {}

    std::uint64_t size() const override { return file_.size(); }

    void Read(std::uint64_t offset, std::span<std::byte> out) override {
      file_.Seek(std::min(offset, size()));
      if (file_.Read(out) == out.size()) return;
      throw DataError("{} ended at byte {} while it was read", file_.path().string(),
                      size() - file_.left());
    }

   private:
    core::RegularFile file_;
  };

  std::unique_ptr<File> Open(const std::string& name) const override {
    const fs::path path = path_ / name;
    std::error_code ignored;  // other errors than a missing file occur again
    if (fs::status(path, ignored).type() == fs::file_type::not_found) {
      if (!fs::is_symlink(path, ignored)) return nullptr;
      throw DataError(
          "{} is a link to a file that does not exist; fetch the content of the dataset first (git "
          "annex get, dvc pull, git lfs pull)",
          path.string());
    }
    try {
      return std::make_unique<FolderFile>(path);
    } catch (const Error& fault) {
      throw Error(ErrorCode::kData, fault.what());
    }
  }

  fs::path path_;
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
  ZipStore(fs::path path, zip_source_t* source, zip_error_t* error) : path_(std::move(path)) {
    if (source != nullptr) archive_.reset(zip_open_from_source(source, ZIP_RDONLY, error));
    if (archive_ != nullptr) {
      FindRewritten();
      return;
    }
    const std::string reason = zip_error_strerror(error);
    if (source != nullptr) zip_source_free(source);
    throw DataError("cannot read {} as a zip archive: {}", path_.string(), reason);
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

  // zarr appends a file that is written again: the last entry of a name is valid, and libzip finds
  // the first.
  void FindRewritten() {
    for (zip_int64_t i = 0; i < zip_get_num_entries(archive_.get(), 0); ++i) {
      const auto index = static_cast<zip_uint64_t>(i);
      const char* const name = zip_get_name(archive_.get(), index, 0);
      if (name == nullptr) continue;
      const zip_int64_t first = zip_name_locate(archive_.get(), name, 0);
      if (first >= 0 && first != i) rewritten_[name] = index;
    }
  }

  // The archive is used by one thread at a time: by the one that has an open file.
  class ZipFile final : public File {
   public:
    ZipFile(std::unique_lock<std::mutex> lock, Entry entry, std::uint64_t size, std::string name)
        : lock_(std::move(lock)), entry_(std::move(entry)), size_(size), name_(std::move(name)) {}

    std::uint64_t size() const override { return size_; }

    void Read(std::uint64_t offset, std::span<std::byte> out) override {
      if (offset > 0 && zip_fseek(entry_.get(), static_cast<zip_int64_t>(offset), SEEK_SET) != 0) {
        throw DataError(
            "{} cannot be read in parts: shards must be stored without compression in a zip "
            "archive (zip -0), or unpack it",
            name_);
      }
      std::size_t done = 0;
      while (done < out.size()) {
        const zip_int64_t n = zip_fread(entry_.get(), out.data() + done, out.size() - done);
        if (n <= 0) {
          throw DataError("{} breaks off at byte {} of {}: {}", name_, done, out.size(),
                          zip_file_strerror(entry_.get()));
        }
        done += static_cast<std::size_t>(n);
      }
      // libzip compares the checksum at the end of the entry
      std::byte extra;
      if (offset > 0 || done < size_ || zip_fread(entry_.get(), &extra, 1) == 0) return;
      throw DataError("{} does not end after {} bytes with a matching checksum: {}", name_, size_,
                      zip_file_strerror(entry_.get()));
    }

   private:
    std::unique_lock<std::mutex> lock_;
    Entry entry_;
    std::uint64_t size_;
    std::string name_;
  };

  std::unique_ptr<File> Open(const std::string& name) const override {
    std::unique_lock lock(mutex_);
    zip_stat_t status;
    zip_stat_init(&status);
    const auto last = rewritten_.find(name);
    const int fault = last != rewritten_.end()
                          ? zip_stat_index(archive_.get(), last->second, 0, &status)
                          : zip_stat(archive_.get(), name.c_str(), 0, &status);
    if (fault != 0) return nullptr;
    if ((status.valid & ZIP_STAT_SIZE) == 0 || (status.valid & ZIP_STAT_INDEX) == 0) {
      throw DataError("{} does not say its size", Describe(name));
    }
    Entry entry(zip_fopen_index(archive_.get(), status.index, 0));
    if (entry == nullptr) {
      throw DataError("cannot read {}: {}", Describe(name), zip_strerror(archive_.get()));
    }
    return std::make_unique<ZipFile>(std::move(lock), std::move(entry), status.size,
                                     Describe(name));
  }

  fs::path path_;
  mutable std::mutex mutex_;
  std::unique_ptr<zip_t, CloseArchive> archive_;
  std::map<std::string, zip_uint64_t> rewritten_;  // the last entry of names with several
};

}  // namespace

std::unique_ptr<Store::File> Store::OpenExisting(const std::string& name) const {
  RequireSafeName(name);
  std::unique_ptr<File> file = Open(name);
  if (file == nullptr) throw DataError("{} does not exist", Describe(name));
  return file;
}

std::optional<std::uint64_t> Store::Peek(const std::string& name, std::span<std::byte> head) const {
  RequireSafeName(name);
  const std::unique_ptr<File> file = Open(name);
  if (file == nullptr) return std::nullopt;
  file->Read(0, head.first(std::min<std::uint64_t>(head.size(), file->size())));
  return file->size();
}

void Store::Read(const std::string& name, std::uint64_t max_bytes,
                 std::vector<std::byte>* out) const {
  const std::unique_ptr<File> file = OpenExisting(name);
  if (file->size() > max_bytes) {
    throw DataError("{} has {} bytes; at most {} are expected here", Describe(name), file->size(),
                    max_bytes);
  }
  out->resize(file->size());
  file->Read(0, *out);
}

void Store::ReadPart(const std::string& name, std::uint64_t offset,
                     std::span<std::byte> out) const {
  OpenExisting(name)->Read(offset, out);
}

std::unique_ptr<Store> OpenZipStore(const fs::path& path) {
  ZipError error;
  zip_source_t* const source = zip_source_file_create(path.c_str(), 0, -1, error.get());
  return std::make_unique<ZipStore>(path, source, error.get());
}

std::unique_ptr<Store> OpenZipStore(std::span<const std::byte> archive, const fs::path& path) {
  ZipError error;
  zip_source_t* const source =
      zip_source_buffer_create(archive.data(), archive.size(), 0, error.get());
  return std::make_unique<ZipStore>(path, source, error.get());
}

std::unique_ptr<Store> OpenStore(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return std::make_unique<FolderStore>(path);
  if (fs::is_regular_file(status)) return OpenZipStore(path);
  throw DataError(
      "no zarr folder or .zarr.zip at '{}'{}; `scripts/get_data.sh pusht` fetches the PushT "
      "demonstrations, `dp_bench collect` makes data with an env's expert",
      path.string(), error ? " (" + error.message() + ")" : "");
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
  throw DataError(
      "'{}' is not the name of an array; expected a relative path such as data/action, which "
      "cannot leave the zarr folder",
      shown);
}

}  // namespace dp_bench::zarr
