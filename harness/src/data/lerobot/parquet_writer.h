// Writes Parquet files through Arrow C++, with the column types that LeRobot uses. Files are not
// atomic and not durable: see core/atomic_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dp_bench::lerobot {

/// A table in memory, column by column. All columns have the same number of rows. Every fault
/// throws Error{kIo} naming the file.
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
  void AddIntegerLists(const std::string& name, std::span<const std::int64_t> values,
                       std::size_t n_per_row);
  /// A file of a picture per row, and its name.
  void AddPictures(const std::string& name, std::span<const std::string> files,
                   std::span<const std::string> names);

  /// Rows of a column of another file, with its type.
  void CopyColumn(const std::string& name, const std::filesystem::path& file,
                  std::int64_t first_row, std::int64_t n_rows);

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
