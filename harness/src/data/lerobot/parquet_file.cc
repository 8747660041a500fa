#include "data/lerobot/parquet_file.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <fmt/format.h>
#include <parquet/api/reader.h>
#include <parquet/arrow/reader.h>

#include <algorithm>
#include <concepts>
#include <utility>

#include "core/half.h"
#include "core/regular_file.h"
#include "data/lerobot/arrow_errors.h"
#include "dp_bench/error.h"

namespace dp_bench::lerobot {

// Memory for one file; Arrow refuses to allocate more than the limit.
struct LimitedMemory {
  explicit LimitedMemory(std::int64_t limit) : pool(&counter, limit) {}

  arrow::ProxyMemoryPool counter{arrow::system_memory_pool()};
  arrow::CappedMemoryPool pool;
};

namespace {

namespace fs = std::filesystem;

ArrowErrors ReadErrors(const std::string& where) { return {ErrorCode::kData, where}; }

void RequireRegularFile(const fs::path& path) { const core::RegularFile file(path); }

// The values of lists that all have the same length, of their values, and so on.
std::shared_ptr<arrow::Array> FlattenLists(const std::string& where,
                                           std::shared_ptr<arrow::Array> array) {
  const auto refuse = [&where](const std::string& what) {
    throw Error(ErrorCode::kData, fmt::format("{}: {}", where, what));
  };
  const auto flatten = [&refuse](const auto& list) {
    const std::int64_t n = list.length();
    const std::int64_t length = n == 0 ? 0 : list.value_length(0);
    for (std::int64_t i = 1; i < n; ++i) {
      if (list.value_length(i) != length) {
        refuse(
            fmt::format("row {} has {} values, but row 0 has {}", i, list.value_length(i), length));
      }
    }
    return n == 0 ? list.values()->Slice(0, 0)
                  : list.values()->Slice(list.value_offset(0), n * length);
  };
  while (true) {
    if (array->null_count() != 0) refuse(fmt::format("{} values are null", array->null_count()));
    switch (array->type_id()) {
      case arrow::Type::LIST:
        array = flatten(static_cast<const arrow::ListArray&>(*array));
        break;
      case arrow::Type::LARGE_LIST:
        array = flatten(static_cast<const arrow::LargeListArray&>(*array));
        break;
      case arrow::Type::FIXED_SIZE_LIST:
        array = flatten(static_cast<const arrow::FixedSizeListArray&>(*array));
        break;
      case arrow::Type::EXTENSION:
        array = static_cast<const arrow::ExtensionArray&>(*array).storage();
        break;
      default:
        return array;
    }
  }
}

// Appends values that fit into T without loss, or are rounded to it.
template <class T, class ArrowArray>
void Append(const arrow::Array& array, std::vector<T>* out) {
  const auto& values = static_cast<const ArrowArray&>(array);
  for (std::int64_t i = 0; i < values.length(); ++i) {
    out->push_back(static_cast<T>(values.Value(i)));
  }
}

template <class T>
bool TryAppendIntegers(const arrow::Array& array, std::vector<T>* out) {
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      return Append<T, arrow::BooleanArray>(array, out), true;
    case arrow::Type::INT8:
      return Append<T, arrow::Int8Array>(array, out), true;
    case arrow::Type::INT16:
      return Append<T, arrow::Int16Array>(array, out), true;
    case arrow::Type::INT32:
      return Append<T, arrow::Int32Array>(array, out), true;
    case arrow::Type::INT64:
      return Append<T, arrow::Int64Array>(array, out), true;
    case arrow::Type::UINT8:
      return Append<T, arrow::UInt8Array>(array, out), true;
    case arrow::Type::UINT16:
      return Append<T, arrow::UInt16Array>(array, out), true;
    case arrow::Type::UINT32:
      return Append<T, arrow::UInt32Array>(array, out), true;
    default:
      return false;
  }
}

template <class T>
bool TryAppendNumbers(const arrow::Array& array, std::vector<T>* out) {
  if (TryAppendIntegers(array, out)) return true;
  if constexpr (std::floating_point<T>) {
    if (array.type_id() == arrow::Type::FLOAT) {
      return Append<T, arrow::FloatArray>(array, out), true;
    }
    if (array.type_id() == arrow::Type::HALF_FLOAT) {
      const auto& halves = static_cast<const arrow::HalfFloatArray&>(array);
      for (std::int64_t i = 0; i < halves.length(); ++i) {
        out->push_back(core::FromFloat16(halves.Value(i)));
      }
      return true;
    }
    if (array.type_id() == arrow::Type::DOUBLE) {
      return Append<T, arrow::DoubleArray>(array, out), true;
    }
    if (array.type_id() == arrow::Type::UINT64) {
      return Append<T, arrow::UInt64Array>(array, out), true;
    }
  }
  return false;
}

bool TryAppendTexts(const arrow::Array& array, std::vector<std::string>* out) {
  const auto append = [out](const auto& texts) {
    for (std::int64_t i = 0; i < texts.length(); ++i) out->emplace_back(texts.GetView(i));
    return true;
  };
  if (array.null_count() != 0) return false;
  if (array.type_id() == arrow::Type::STRING) {
    return append(static_cast<const arrow::StringArray&>(array));
  }
  if (array.type_id() == arrow::Type::LARGE_STRING) {
    return append(static_cast<const arrow::LargeStringArray&>(array));
  }
  return false;
}

}  // namespace

struct ParquetFile::Reader {
  explicit Reader(std::int64_t limit) : memory(limit) {}

  LimitedMemory memory;  // outlives what was allocated in it
  std::unique_ptr<parquet::arrow::FileReader> file;

  const parquet::FileMetaData& metadata() const { return *file->parquet_reader()->metadata(); }

  // The column in a row group, as the chunks that Arrow made of it.
  arrow::ArrayVector Read(const std::string& where, int row_group, const std::string& column) {
    const int index = metadata().schema()->group_node()->FieldIndex(column);
    if (index < 0) throw Error(ErrorCode::kData, fmt::format("{}: there is no such column", where));
    std::shared_ptr<arrow::ChunkedArray> chunks;
    ReadErrors(where).Check(file->RowGroup(row_group)->Column(index)->Read(&chunks));
    if (chunks->length() != metadata().RowGroup(row_group)->num_rows()) {
      throw Error(ErrorCode::kData,
                  fmt::format("{}: row group {} has {} rows, expected {}", where, row_group,
                              chunks->length(), metadata().RowGroup(row_group)->num_rows()));
    }
    return chunks->chunks();
  }
};

ParquetFile::ParquetFile(const fs::path& path, std::int64_t max_bytes)
    : path_(path), reader_(std::make_unique<Reader>(max_bytes)) {
  RequireRegularFile(path);
  ReadErrors(path.string()).Guard([&] {
    parquet::ReaderProperties properties(&reader_->memory.pool);
    parquet::arrow::FileReaderBuilder builder;
    ReadErrors(path.string())
        .Check(builder.OpenFile(path.string(), /*memory_map=*/false, properties));
    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    builder.memory_pool(&reader_->memory.pool)->properties(arrow_properties);
    reader_->file = ReadErrors(path.string()).Check(builder.Build());
  });
}

ParquetFile::~ParquetFile() = default;

std::int64_t ParquetFile::num_rows() const { return reader_->metadata().num_rows(); }
int ParquetFile::num_row_groups() const { return reader_->metadata().num_row_groups(); }
std::int64_t ParquetFile::num_rows(int row_group) const {
  return reader_->metadata().RowGroup(row_group)->num_rows();
}

std::string ParquetFile::TypeOf(const std::string& column) const {
  const ArrowErrors errors = ReadErrors(path_.string());
  return errors.Guard([&]() -> std::string {
    std::shared_ptr<arrow::Schema> schema;
    errors.Check(reader_->file->GetSchema(&schema));
    const std::shared_ptr<arrow::Field> field = schema->GetFieldByName(column);
    return field == nullptr ? "" : field->type()->ToString();
  });
}

bool ParquetFile::HasColumn(const std::string& column) const {
  return reader_->metadata().schema()->group_node()->FieldIndex(column) >= 0;
}

template <class T>
std::vector<T> ParquetFile::ReadNumbers(int row_group, const std::string& column,
                                        std::int64_t n_per_row) {
  const std::string where = fmt::format("{}: column '{}'", path_.string(), column);
  return ReadErrors(where).Guard([&] {
    std::vector<T> numbers;
    for (const std::shared_ptr<arrow::Array>& chunk : reader_->Read(where, row_group, column)) {
      const std::shared_ptr<arrow::Array> values = FlattenLists(where, chunk);
      if (values->length() != chunk->length() * n_per_row) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: {} rows have {} values, expected {} per row", where,
                                chunk->length(), values->length(), n_per_row));
      }
      if (!TryAppendNumbers(*values, &numbers)) {
        throw Error(ErrorCode::kData, fmt::format("{}: expected {}, found {}", where,
                                                  std::floating_point<T> ? "numbers" : "integers",
                                                  chunk->type()->ToString()));
      }
    }
    return numbers;
  });
}

template std::vector<float> ParquetFile::ReadNumbers(int, const std::string&, std::int64_t);
template std::vector<double> ParquetFile::ReadNumbers(int, const std::string&, std::int64_t);
template std::vector<std::int64_t> ParquetFile::ReadNumbers(int, const std::string&, std::int64_t);

std::vector<std::string> ParquetFile::ReadTexts(int row_group, const std::string& column) {
  const std::string where = fmt::format("{}: column '{}'", path_.string(), column);
  return ReadErrors(where).Guard([&] {
    std::vector<std::string> texts;
    for (const std::shared_ptr<arrow::Array>& chunk : reader_->Read(where, row_group, column)) {
      if (!TryAppendTexts(*chunk, &texts)) {
        throw Error(ErrorCode::kData, fmt::format("{}: expected texts without nulls, found {}",
                                                  where, chunk->type()->ToString()));
      }
    }
    return texts;
  });
}

std::vector<std::vector<std::string>> ParquetFile::ReadTextLists(int row_group,
                                                                 const std::string& column) {
  const std::string where = fmt::format("{}: column '{}'", path_.string(), column);
  return ReadErrors(where).Guard([&] {
    std::vector<std::vector<std::string>> lists;
    const auto append = [&](const auto& array) {
      for (std::int64_t i = 0; i < array.length(); ++i) {
        if (!TryAppendTexts(*array.value_slice(i), &lists.emplace_back())) return false;
      }
      return array.null_count() == 0;
    };
    for (const std::shared_ptr<arrow::Array>& chunk : reader_->Read(where, row_group, column)) {
      bool is_text = false;
      if (chunk->type_id() == arrow::Type::LIST) {
        is_text = append(static_cast<const arrow::ListArray&>(*chunk));
      } else if (chunk->type_id() == arrow::Type::LARGE_LIST) {
        is_text = append(static_cast<const arrow::LargeListArray&>(*chunk));
      }
      if (!is_text) {
        throw Error(ErrorCode::kData, fmt::format("{}: expected lists of texts, found {}", where,
                                                  chunk->type()->ToString()));
      }
    }
    return lists;
  });
}

struct ParquetPictures::Reader {
  explicit Reader(std::int64_t limit) : memory(limit) {}

  LimitedMemory memory;  // outlives what was allocated in it
  std::unique_ptr<parquet::ParquetFileReader> file;
  int leaf = -1;                           // the column of the bytes
  std::vector<std::int64_t> group_begins;  // first row of each row group, and the number of rows
  int group = -1;                          // in which `column` is
  std::shared_ptr<parquet::ByteArrayReader> column;
  std::int64_t next_row = 0;
};

ParquetPictures::ParquetPictures(const fs::path& path, const std::string& column,
                                 std::int64_t max_bytes)
    : path_(path), column_(column), reader_(std::make_unique<Reader>(max_bytes)) {
  RequireRegularFile(path);
  ReadErrors(path.string()).Guard([&] {
    Reader& r = *reader_;
    parquet::ReaderProperties properties(&r.memory.pool);
    properties.enable_buffered_stream();  // page by page, not a whole column
    r.file = parquet::ParquetFileReader::OpenFile(path.string(), /*memory_map=*/false, properties);
    const parquet::FileMetaData& metadata = *r.file->metadata();
    r.leaf = metadata.schema()->ColumnIndex(column + ".bytes");
    if (r.leaf < 0 ||
        metadata.schema()->Column(r.leaf)->physical_type() != parquet::Type::BYTE_ARRAY ||
        metadata.schema()->Column(r.leaf)->max_repetition_level() != 0) {
      throw Error(ErrorCode::kData, fmt::format("{}: column '{}' holds no pictures (bytes, path)",
                                                path.string(), column));
    }
    r.group_begins.push_back(0);
    for (int i = 0; i < metadata.num_row_groups(); ++i) {
      r.group_begins.push_back(r.group_begins.back() + metadata.RowGroup(i)->num_rows());
    }
  });
}

ParquetPictures::~ParquetPictures() = default;

std::int64_t ParquetPictures::next_row() const { return reader_->next_row; }

std::span<const std::byte> ParquetPictures::Read(std::int64_t row) {
  const std::string where = fmt::format("{}: column '{}', row {}", path_.string(), column_, row);
  return ReadErrors(where).Guard([&] {
    Reader& r = *reader_;
    if (row < 0 || row >= r.group_begins.back()) {
      throw Error(ErrorCode::kData,
                  fmt::format("{}: the file has {} rows", where, r.group_begins.back()));
    }
    const auto after = std::ranges::upper_bound(r.group_begins, row);
    const int group = static_cast<int>(after - r.group_begins.begin()) - 1;
    if (group != r.group || row < r.next_row) {
      r.column = std::dynamic_pointer_cast<parquet::ByteArrayReader>(
          r.file->RowGroup(group)->Column(r.leaf));
      r.group = group;
      r.next_row = r.group_begins[static_cast<std::size_t>(group)];
    }
    r.next_row += r.column->Skip(row - r.next_row);

    parquet::ByteArray picture;
    std::int16_t definition = 0;
    std::int64_t n_values = 0;
    const std::int64_t n_levels =
        r.next_row == row ? r.column->ReadBatch(1, &definition, nullptr, &picture, &n_values) : 0;
    if (n_levels == 1) ++r.next_row;
    if (n_values != 1) {
      throw Error(ErrorCode::kData,
                  fmt::format("{}: expected the bytes of a picture, found {}", where,
                              n_levels == 1 ? "null" : "the end of the column"));
    }
    return std::as_bytes(std::span(picture.ptr, picture.len));
  });
}

}  // namespace dp_bench::lerobot
