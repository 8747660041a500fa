// Untrusted files, opened for reading: regular ones of a bounded size. A FIFO or a device would
// block or never end, so neither is opened at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>

namespace dp_bench::core {

/// A regular file that is open for reading. Every fault throws Error{kIo} with the path and what to
/// do about it. Used by one thread at a time.
class RegularFile {
 public:
  /// Refuses FIFOs, devices, sockets and folders, and more than `max_bytes`.
  explicit RegularFile(std::filesystem::path path,
                       std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max());
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;
  ~RegularFile();

  const std::filesystem::path& path() const { return path_; }

  /// Bytes when it was opened. What is appended later is not read.
  std::uint64_t size() const { return size_; }

  /// Bytes that follow the last ones read.
  std::uint64_t left() const { return size_ - position_; }

  /// Fills `out` from the front as far as the file goes; returns the number of bytes.
  std::size_t Read(std::span<std::byte> out);

  /// Fills `out`; a file that ends before is a fault.
  void ReadExactly(std::span<std::byte> out);

  /// The next read begins at this byte, at most size().
  void Seek(std::uint64_t position);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t position_ = 0;
};

/// The lines of a text file, of which only one block and one line are in memory.
class LineReader {
 public:
  /// What a line has beyond `max_line_bytes` is left out.
  LineReader(std::filesystem::path path, std::uint64_t max_file_bytes, std::size_t max_line_bytes);

  /// The next line without its end; false when there is none.
  bool Next(std::string* line);

 private:
  bool Refill();

  RegularFile file_;
  std::size_t max_line_bytes_;
  std::string block_;
  std::size_t position_ = 0;  // in the block
};

}  // namespace dp_bench::core
