// Files that the user named for a result: --json F, --html F, video --output F. What is already
// there decides how they are written, so that a device or a link is never replaced by a file.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace dp_bench::core {

/// Where a path leads.
struct OutputPlace {
  /// Links are followed. For a stream, how to name it.
  std::filesystem::path path;
  /// Written through: standard output, another open file (/dev/fd/N), a FIFO or a device. Otherwise
  /// a regular file, or none yet, which is replaced as a whole.
  bool is_stream = false;
  int descriptor = -1;  // of an open file
};

/// "-" is standard output. Throws Error{kUsage} for a folder, a disk or a socket, Error{kIo} if the
/// file system refuses, and if the place cannot be written.
OutputPlace FindOutput(const std::filesystem::path& path);

/// Writes the whole content. A regular file appears durably or not at all. Throws Error{kIo}.
void WriteOutput(const std::filesystem::path& path, std::span<const std::byte> bytes);
void WriteOutput(const std::filesystem::path& path, std::string_view text);

/// From now on results (core/console.h) go to standard error, because standard output belongs to
/// WriteOutput.
void ReserveStandardOutput();

}  // namespace dp_bench::core
