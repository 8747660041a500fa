// Reading untrusted files: only regular ones of a bounded size. Opening a FIFO or a device could
// block or never end, so neither is opened at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>

#include "core/system_error.h"

namespace dp_bench::core {

/// A regular file that is open for reading. Every failure throws Error{kIo} with the path and what
/// to do. Used by one thread at a time.
class RegularFile {
 public:
  /// Refuses FIFOs, devices, sockets, folders, and files of more than `max_bytes`.
  explicit RegularFile(std::filesystem::path path,
                       std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max());
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Size when it was opened. Bytes appended later are not read.
  std::uint64_t size() const { return size_; }

  /// Bytes that follow the last read.
  std::uint64_t left() const { return size_ - position_; }

  /// Reads up to `out.size()` bytes, as far as the file goes. Returns the number of bytes read.
  std::size_t Read(std::span<std::byte> out);

  /// Fills `out`. A file that ends before that is an error.
  void ReadExactly(std::span<std::byte> out);

  /// The next read begins at this byte, at most size().
  void Seek(std::uint64_t position);

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  std::uint64_t size_ = 0;
  std::uint64_t position_ = 0;
};

/// The lines of a text file. Only one block and one line are in memory.
class LineReader {
 public:
  /// The part of a line beyond `max_line_bytes` is dropped.
  LineReader(std::filesystem::path path, std::uint64_t max_file_bytes, std::size_t max_line_bytes);

  /// Reads the next line without its line end. False if there is none.
  bool Next(std::string* line);

 private:
  bool Refill();

  RegularFile file_;
  std::size_t max_line_bytes_;
  std::string block_;
  std::size_t position_ = 0;  // in the block
};

}  // namespace dp_bench::core
