// Parquet files (Apache Parquet format 2) through Arrow C++: whole columns of numbers and texts,
// and pictures one by one. Files are untrusted. Arrow checks them while it decodes, in memory of a
// limited size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dp_bench::lerobot {

/// One open file. Used by one thread at a time. Every fault throws Error{kData} naming the file and
/// the column.
class ParquetFile {
 public:
  /// Reads the footer of a regular file. Columns are decoded in at most `max_bytes` of memory.
  ParquetFile(const std::filesystem::path& path, std::int64_t max_bytes);
  ~ParquetFile();

  std::int64_t num_rows() const;
  int num_row_groups() const;
  std::int64_t num_rows(int row_group) const;
  bool HasColumn(const std::string& column) const;
  /// As Arrow writes it, such as "list<element: float>"; empty if there is no such column.
  std::string TypeOf(const std::string& column) const;

  /// The numbers of a column: a scalar or `n_per_row` of them in lists of equal length, without
  /// nulls. T is float, double or std::int64_t; only integers are converted to std::int64_t.
  template <class T>
  std::vector<T> ReadNumbers(int row_group, const std::string& column, std::int64_t n_per_row = 1);

  std::vector<std::string> ReadTexts(int row_group, const std::string& column);
  std::vector<std::vector<std::string>> ReadTextLists(int row_group, const std::string& column);

 private:
  struct Reader;

  std::filesystem::path path_;
  std::unique_ptr<Reader> reader_;
};

/// The encoded pictures of a column {bytes, path}. Reading forwards decodes each page once. Used by
/// one thread at a time.
class ParquetPictures {
 public:
  /// Throws Error{kData} if the column has no pictures.
  ParquetPictures(const std::filesystem::path& path, const std::string& column,
                  std::int64_t max_bytes);
  ~ParquetPictures();

  /// The row that Read reaches without going back.
  std::int64_t next_row() const;

  /// The file that a row holds. Valid until the next call.
  std::span<const std::byte> Read(std::int64_t row);

 private:
  struct Reader;

  std::filesystem::path path_;
  std::string column_;
  std::unique_ptr<Reader> reader_;
};

}  // namespace dp_bench::lerobot
