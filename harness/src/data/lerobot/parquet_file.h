// Parquet files (Apache Parquet format 2) through Arrow C++. They are read as whole columns of
// numbers and texts, and images one by one; files are untrusted, and Arrow checks them while it
// decodes, in memory of a limited size. They are written with the column types that LeRobot uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dp_bench::lerobot {

/// Rows [first, first + n) of a file.
struct Rows {
  std::int64_t first = 0;
  std::int64_t n = 0;
};

/// One open file. Used by one thread at a time. Every fault throws Error{kData} naming the file and
/// the column.
class ParquetFile {
 public:
  /// Reads the footer of a regular file. Columns are decoded in at most `max_bytes` of memory.
  ParquetFile(const std::filesystem::path& path, std::int64_t max_bytes);
  ~ParquetFile();

  std::int64_t num_rows() const;
  std::span<const Rows> row_groups() const;
  bool HasColumn(const std::string& column) const;
  /// As Arrow writes it, such as "list<element: float>"; empty if there is no such column.
  std::string TypeOf(const std::string& column) const;

  /// The numbers of a column: a scalar or `n_per_row` of them in lists of equal length, without
  /// nulls. T is float, double or std::int64_t; only integers are converted to std::int64_t, and
  /// only those that are exact to float (data/reader/whole_numbers.h).
  template <class T>
  std::vector<T> ReadNumbers(const std::string& column, const Rows& rows,
                             std::int64_t n_per_row = 1);
  template <class T>
  std::vector<T> ReadNumbers(const std::string& column, std::int64_t n_per_row = 1) {
    return ReadNumbers<T>(column, {0, num_rows()}, n_per_row);
  }

  std::vector<std::string> ReadTexts(const std::string& column);
  std::vector<std::vector<std::string>> ReadTextLists(const std::string& column);

 private:
  friend class ParquetTable;
  struct Reader;

  template <class Use>
  void ForEachChunk(const std::string& column, const Rows& rows, const Use& use);

  std::filesystem::path path_;
  std::shared_ptr<Reader> reader_;  // shared with copies of columns
};

/// The encoded images of a column {bytes, path}. Reading forwards decodes each page once. Used by
/// one thread at a time.
class ParquetImages {
 public:
  /// Throws Error{kData} if the column has no images.
  ParquetImages(const std::filesystem::path& path, const std::string& column,
                std::int64_t max_bytes);
  ~ParquetImages();

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

/// A table in memory that is written, column by column. All columns have the same number of rows.
/// Files are not atomic and not durable: see core/atomic_file.h. Every fault throws Error{kIo}
/// naming the file.
class ParquetTable {
 public:
  ParquetTable();
  ~ParquetTable();

  /// `n_per_row` numbers in a list of fixed size, or a plain number if it is 1.
  void AddFloats(const std::string& name, std::span<const float> values, std::size_t n_per_row);
  void AddIntegers(const std::string& name, std::span<const std::int64_t> values);
  void AddDoubles(const std::string& name, std::span<const double> values);
  void AddTexts(const std::string& name, std::span<const std::string> values);
  void AddTextLists(const std::string& name, std::span<const std::vector<std::string>> values);
  /// Lists of `n_per_row` numbers, each in `n_nested` more lists of one element.
  void AddDoubleLists(const std::string& name, std::span<const double> values,
                      std::size_t n_per_row, int n_nested);
  /// Lists of one number.
  void AddIntegerLists(const std::string& name, std::span<const std::int64_t> values);
  /// A file of an image per row, and its name.
  void AddImages(const std::string& name, std::span<const std::string> files,
                 std::span<const std::string> names);

  /// Rows of a column of another file, with its type.
  void CopyColumn(const std::string& name, const ParquetFile& file, const Rows& rows);

  /// A text that describes the table, for other programs.
  void SetMetadata(const std::string& key, const std::string& text);

  /// Writes all rows as one row group.
  void Write(const std::filesystem::path& path) const;

 private:
  struct Content;

  std::unique_ptr<Content> content_;
};

/// One file from the tables of others, which have the same columns. Each table becomes a row group.
class ParquetJoiner {
 public:
  /// Creates the file. `first` is a file with the columns.
  ParquetJoiner(const std::filesystem::path& path, const std::filesystem::path& first);
  /// Leaves a damaged file if Finish was not called.
  ~ParquetJoiner();

  void Append(const std::filesystem::path& part);

  std::int64_t n_bytes() const;  // so far
  std::int64_t n_rows() const;

  void Finish();

 private:
  struct Output;

  std::unique_ptr<Output> output_;
};

}  // namespace dp_bench::lerobot
