// A zarr hierarchy in a zip archive, as zarr's ZipStore writes it: the names of the entries are the
// keys. libzip handles are not thread-safe, so raw bytes are read under a lock. Decoding, the
// expensive part, happens outside it.
#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include "data/zarr/store.h"
#include "dp_bench/error.h"

namespace dp_bench::zarr {
namespace {

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

}  // namespace dp_bench::zarr
