// Files and folders that exist completely or not at all: written under a temporary name, fsynced,
// renamed, and the folder above fsynced, so that neither a crash nor a power cut leaves half of
// one. Source: rename(2) is atomic within one file system; fsync(2) of the folder makes it durable.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::core {

// Files and folders that are being written, so that a signal that ends the program can remove them.

/// While it lives, `path` counts as unfinished: declare it before what creates the path.
class Unfinished {
 public:
  explicit Unfinished(std::filesystem::path path);
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished();

 private:
  std::filesystem::path path_;
};

/// Removes what is unfinished. For a program about to end: from here on every thread that begins or
/// ends such a path waits for ever, so that none is created behind it and no fault of the removal
/// is reported.
void RemoveUnfinishedAndHold();

/// A file being written under `<name>.tmp.<random>` in the folder of `path`. Every fault throws
/// Error{kIo} with the path and the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Removes what was not committed.
  ~AtomicFile();

  void Write(std::span<const std::byte> bytes);
  void Write(std::string_view text);

  /// Makes the file appear as `path`, replacing an older one.
  void Commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  Unfinished unfinished_;
  int descriptor_ = -1;
};

void WriteFileAtomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void WriteFileAtomically(const std::filesystem::path& path, std::string_view text);

/// A folder being filled under `<name>.tmp.<random>` next to `path`.
class AtomicFolder {
 public:
  /// Creates the temporary folder, and the folders above it where they are missing.
  explicit AtomicFolder(std::filesystem::path path);
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  /// Removes what was not committed.
  ~AtomicFolder();

  /// Where to write until `Commit`.
  const std::filesystem::path& temporary() const { return temporary_; }

  /// Fsyncs all that lies in the folder, then makes it appear as `path`. Throws Error{kIo} when
  /// `path` exists and is not an empty folder: nothing is overwritten.
  void Commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  Unfinished unfinished_;
  bool is_committed_ = false;
};

/// Neither atomic nor durable: for a file that nothing refers to yet.
void WriteNewFile(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Where to write what becomes `path` with RenameDurably: a name beside it that IsTemporaryName.
std::filesystem::path TemporaryFor(const std::filesystem::path& path);

/// Makes the content of a file durable.
void FsyncFile(const std::filesystem::path& path);

/// Makes the entries of a folder durable: needed after each rename in it.
void FsyncFolder(const std::filesystem::path& folder);

/// rename(2) followed by FsyncFolder of the folder above.
void RenameDurably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Whether a file name is that of an AtomicFile or AtomicFolder that was never committed.
bool IsTemporaryName(std::string_view name);

/// The folder and those above it, where they are missing. Throws Error{kIo}.
void CreateFolders(const std::filesystem::path& folder);

/// The file, or the folder with all that is in it; fine where there is none. Throws Error{kIo}.
void RemoveAll(const std::filesystem::path& path);

/// Removes what writers that were killed left anywhere below `folder`, where none may be at work.
void RemoveTemporaryFiles(const std::filesystem::path& folder);

/// The whole file. Throws Error{kIo} when it cannot be read or has more than `max_bytes`; the size
/// is checked before memory is taken.
std::vector<std::byte> ReadFile(const std::filesystem::path& path, std::size_t max_bytes);

/// ReadFile as text.
std::string ReadTextFile(const std::filesystem::path& path, std::size_t max_bytes);

}  // namespace dp_bench::core
