// The source of the files of a zarr hierarchy: a folder or a zip archive. Names are relative, with
// '/' between the parts, and can never lead outside. Symbolic links in a folder are followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::zarr {

/// Read-only; may be used from several threads at once. Every fault is an Error{kData} naming the
/// file.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  /// Reads the first bytes of a file, as many as it has, up to the size of `head`. Returns the size
  /// of the whole file; nullopt if there is no such file.
  std::optional<std::uint64_t> Peek(const std::string& name, std::span<std::byte> head) const;

  /// Reads a whole file into `out`, whose memory is reused. Throws if the file does not exist or is
  /// larger than `max_bytes`, before memory is allocated.
  void Read(const std::string& name, std::uint64_t max_bytes, std::vector<std::byte>* out) const;

  /// Reads the bytes of a file from `offset` on. Throws if it does not have them.
  void ReadPart(const std::string& name, std::uint64_t offset, std::span<std::byte> out) const;

  /// The folders directly below a folder, sorted; those whose names begin with '.' are left out.
  /// Empty if there is no such folder.
  virtual std::vector<std::string> ListFolders(const std::string& folder) const = 0;

  /// The name of a file in messages.
  virtual std::string Describe(std::string_view name) const = 0;

 protected:
  /// A file that is open.
  class File {
   public:
    virtual ~File() = default;
    virtual std::uint64_t size() const = 0;
    virtual void Read(std::uint64_t offset, std::span<std::byte> out) = 0;
  };

 private:
  /// Null if there is no such file. The name cannot lead outside.
  virtual std::unique_ptr<File> Open(const std::string& name) const = 0;
  std::unique_ptr<File> OpenExisting(const std::string& name) const;
};

/// Opens a folder, or a file as zip archive.
std::unique_ptr<Store> OpenStore(const std::filesystem::path& path);

std::unique_ptr<Store> OpenZipStore(const std::filesystem::path& path);

/// A zip archive in memory, which must outlive the store; messages call it `path`.
std::unique_ptr<Store> OpenZipStore(std::span<const std::byte> archive,
                                    const std::filesystem::path& path);

/// Throws unless `name` is a relative path of ordinary parts: no "..", no empty part, no NUL.
void RequireSafeName(std::string_view name);

}  // namespace dp_bench::zarr
