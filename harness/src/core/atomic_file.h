// Files and folders that exist completely or not at all. They are written under a temporary name,
// fsynced and renamed, and then the parent folder is fsynced, so neither a crash nor a power cut
// leaves a partial one. Source: rename(2) is atomic within one file system; fsync(2) of the folder
// makes it durable.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::core {

// Files and folders that are being written, so that a signal that ends the program can remove them.

/// `path` counts as unfinished while this object exists: declare it before the code that creates
/// the path.
class Unfinished {
 public:
  explicit Unfinished(std::filesystem::path path);
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished();

 private:
  std::filesystem::path path_;
};

/// Removes everything unfinished. Call it only when the program is about to end: afterwards, every
/// thread that begins or ends such a path blocks forever, so no new one appears and no error from
/// the removal is reported.
void RemoveUnfinishedAndHold();

/// A file that appears as `path` when it is complete. It has no name before (open(2), O_TMPFILE),
/// so that a killed program leaves nothing. Where the file system cannot do that, it is
/// `<name>.tmp.<random>` in the folder of `path`. Every failure throws Error{kIo} with the path and
/// the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Removes the file if it was not committed.
  ~AtomicFile();

  void Write(std::span<const std::byte> bytes);
  void Write(std::string_view text);

  /// A path that opens the unfinished file, for libraries that open files themselves.
  std::filesystem::path path_to_open() const;

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

/// A folder that is filled under `<name>.tmp.<random>` next to `path`.
class AtomicFolder {
 public:
  /// Creates the temporary folder and any missing parent folders.
  explicit AtomicFolder(std::filesystem::path path);
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  /// Removes the folder if it was not committed.
  ~AtomicFolder();

  /// Where to write until `Commit`.
  const std::filesystem::path& temporary() const { return temporary_; }

  /// Fsyncs everything in the folder, then makes it appear as `path`. Throws Error{kIo} if `path`
  /// exists and is not an empty folder: nothing is overwritten.
  void Commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  Unfinished unfinished_;
  bool is_committed_ = false;
};

/// Neither atomic nor durable: for a file that nothing refers to yet.
void WriteNewFile(const std::filesystem::path& path, std::span<const std::byte> bytes);
void WriteNewFile(const std::filesystem::path& path, std::string_view text);

/// A temporary path next to `path`, for content that RenameDurably later moves to `path`.
/// IsTemporaryName recognizes it.
std::filesystem::path TemporaryFor(const std::filesystem::path& path);

/// Makes the content of a file durable.
void FsyncFile(const std::filesystem::path& path);

/// Makes the entries of a folder durable. Needed after each rename in it.
void FsyncFolder(const std::filesystem::path& folder);

/// rename(2) followed by FsyncFolder of the folder above.
void RenameDurably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Whether a file name is that of an AtomicFile or AtomicFolder that was never committed.
bool IsTemporaryName(std::string_view name);

/// The entries of a folder, by name; none if it does not exist. Throws Error{kIo}.
std::vector<std::filesystem::path> EntriesOf(const std::filesystem::path& folder);

/// The last part of a path, also of one that ends with "/" or with "..".
std::filesystem::path NameOf(const std::filesystem::path& path);

/// The path with `ending` behind its name: "a/b.json" for "a/b" and for "a/b/".
std::filesystem::path Beside(const std::filesystem::path& path, std::string_view ending);

/// Creates the folder and any missing parents. Throws Error{kIo}.
void CreateFolders(const std::filesystem::path& folder);

/// Removes the file, or the folder with its contents. Does nothing if it does not exist. Throws
/// Error{kIo}.
void RemoveAll(const std::filesystem::path& path);

/// Removes what killed writers left anywhere below `folder`. No writer may be active there.
void RemoveTemporaryFiles(const std::filesystem::path& folder);

/// The whole file. Throws Error{kIo} if it cannot be read or has more than `max_bytes`. The size is
/// checked before memory is allocated.
std::vector<std::byte> ReadFile(const std::filesystem::path& path, std::size_t max_bytes);

/// ReadFile as text.
std::string ReadTextFile(const std::filesystem::path& path, std::size_t max_bytes);

/// Makes a file durable that may have no name yet, and lets it appear as `path`, replacing an older
/// one. It bears the name `temporary` only for a moment, if at all. Throws Error{kIo}.
void PublishUnnamed(int descriptor, const std::filesystem::path& temporary,
                    const std::filesystem::path& path);

/// Removes what killed writers of `path` left next to it. Their locks ended with them; a writer
/// that is alive keeps its file.
void RemoveLeftOvers(const std::filesystem::path& path);

}  // namespace dp_bench::core
