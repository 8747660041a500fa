#include "data/lerobot/parquet_file.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <fmt/format.h>
#include <parquet/api/reader.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <concepts>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/errors.h"
#include "core/half.h"
#include "core/regular_file.h"
#include "data/lerobot/arrow_errors.h"
#include "data/reader/whole_numbers.h"

namespace dp_bench::lerobot {

namespace {

namespace fs = std::filesystem;

// The values of lists that all have the same length, of their values, and so on.
std::shared_ptr<arrow::Array> FlattenLists(const std::string& where,
                                           std::shared_ptr<arrow::Array> array) {
  const auto refuse = [&where](const std::string& what) { throw DataError("{}: {}", where, what); };
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

// Appends if the array has one of these types.
template <class T, class... ArrowArrays>
bool TryAppend(const arrow::Array& array, std::vector<T>* out) {
  return ((array.type_id() == ArrowArrays::TypeClass::type_id &&
           (Append<T, ArrowArrays>(array, out), true)) ||
          ...);
}

template <class T>
bool TryAppendNumbers(const arrow::Array& array, std::vector<T>* out) {
  using namespace arrow;
  if (TryAppend<T, BooleanArray, Int8Array, Int16Array, Int32Array, Int64Array, UInt8Array,
                UInt16Array, UInt32Array>(array, out)) {
    return true;
  }
  if constexpr (std::floating_point<T>) {
    if (array.type_id() == Type::HALF_FLOAT) {
      const auto& halves = static_cast<const HalfFloatArray&>(array);
      for (std::int64_t i = 0; i < halves.length(); ++i) {
        out->push_back(core::FromFloat16(halves.Value(i)));
      }
      return true;
    }
    return TryAppend<T, FloatArray, DoubleArray, UInt64Array>(array, out);
  }
  return false;
}

// The index of the first value that float32 cannot hold, if the array has one of these types.
template <class... ArrowArrays>
std::optional<std::int64_t> FindInexact(const arrow::Array& array) {
  std::optional<std::int64_t> found;
  const auto look = [&]<class ArrowArray>(const ArrowArray& values) {
    found = reader::FindInexact(
        std::span(values.raw_values(), static_cast<std::size_t>(values.length())));
    return true;
  };
  (void)((array.type_id() == ArrowArrays::TypeClass::type_id &&
          look(static_cast<const ArrowArrays&>(array))) ||
         ...);
  return found;
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

ArrowErrors WriteErrors(const std::string& where) {
  return {ErrorCode::kIo, "cannot write " + where};
}

template <class Builder>
std::shared_ptr<arrow::Array> Finish(const std::string& where, Builder* builder) {
  std::shared_ptr<arrow::Array> array;
  WriteErrors(where).Check(builder->Finish(&array));
  return array;
}

template <class Builder, class T>
std::shared_ptr<arrow::Array> MakeArray(const std::string& where, std::span<const T> values) {
  Builder builder;
  WriteErrors(where).Check(
      builder.AppendValues(values.data(), static_cast<std::int64_t>(values.size())));
  return Finish(where, &builder);
}

std::shared_ptr<arrow::Array> MakeTexts(const std::string& where,
                                        std::span<const std::string> values) {
  arrow::StringBuilder builder;
  const ArrowErrors errors = WriteErrors(where);
  for (const std::string& value : values) errors.Check(builder.Append(value));
  return Finish(where, &builder);
}

// Lists of `n_per_row` values each.
std::shared_ptr<arrow::Array> MakeLists(const std::string& where,
                                        const std::shared_ptr<arrow::Array>& values,
                                        std::size_t n_per_row) {
  std::vector<std::int32_t> offsets;
  for (std::int64_t at = 0; at <= values->length(); at += static_cast<std::int64_t>(n_per_row)) {
    offsets.push_back(static_cast<std::int32_t>(at));
  }
  const auto begins = MakeArray<arrow::Int32Builder>(where, std::span<const std::int32_t>(offsets));
  const auto type = arrow::list(arrow::field("element", values->type()));
  return WriteErrors(where).Check(arrow::ListArray::FromArrays(type, *begins, *values));
}

std::shared_ptr<parquet::WriterProperties> Properties(const arrow::Schema& schema) {
  parquet::WriterProperties::Builder properties;
  properties.compression(arrow::Compression::SNAPPY);
  for (const std::shared_ptr<arrow::Field>& field : schema.fields()) {
    // images do not repeat
    if (field->type()->id() == arrow::Type::STRUCT) {
      properties.disable_dictionary(field->name() + ".bytes");
    }
  }
  return properties.build();
}

}  // namespace

struct ParquetFile::Reader {
  explicit Reader(std::int64_t limit) : memory(limit) {}

  LimitedMemory memory;  // outlives what was allocated in it
  std::unique_ptr<parquet::arrow::FileReader> file;
  std::vector<Rows> groups;

  const parquet::FileMetaData& metadata() const { return *file->parquet_reader()->metadata(); }

  void FindGroups(const std::string& where) {
    std::int64_t end = 0;
    for (int i = 0; i < metadata().num_row_groups(); ++i) {
      groups.push_back({.first = end, .n = metadata().RowGroup(i)->num_rows()});
      if (groups.back().n >= 0 && !__builtin_add_overflow(end, groups.back().n, &end)) continue;
      throw DataError("{}: row group {} cannot have {} rows", where, i, groups.back().n);
    }
  }

  // Rows of a column, as the chunks that Arrow made of them.
  arrow::ArrayVector Read(const std::string& where, const std::string& column, const Rows& rows) {
    const int index = metadata().schema()->group_node()->FieldIndex(column);
    if (index < 0) throw DataError("{}: there is no such column", where);
    arrow::ArrayVector chunks;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const std::int64_t begin = std::max(rows.first - groups[i].first, std::int64_t{0});
      const std::int64_t end = std::min(rows.first + rows.n - groups[i].first, groups[i].n);
      if (begin >= end) continue;
      std::shared_ptr<arrow::ChunkedArray> all;
      ReadErrors(where).Check(file->RowGroup(static_cast<int>(i))->Column(index)->Read(&all));
      if (all->length() != groups[i].n) {
        throw DataError("{}: row group {} has {} rows, expected {}", where, i, all->length(),
                        groups[i].n);
      }
      const arrow::ArrayVector wanted = all->Slice(begin, end - begin)->chunks();
      chunks.insert(chunks.end(), wanted.begin(), wanted.end());
    }
    return chunks;
  }
};

ParquetFile::ParquetFile(const fs::path& path, std::int64_t max_bytes)
    : path_(path), reader_(std::make_shared<Reader>(max_bytes)) {
  const core::RegularFile regular(path);
  ReadErrors(path.string()).Guard([&] {
    parquet::ReaderProperties properties(&reader_->memory.pool);
    parquet::arrow::FileReaderBuilder builder;
    ReadErrors(path.string())
        .Check(builder.OpenFile(path.string(), /*memory_map=*/false, properties));
    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    builder.memory_pool(&reader_->memory.pool)->properties(arrow_properties);
    reader_->file = ReadErrors(path.string()).Check(builder.Build());
    reader_->FindGroups(path.string());
  });
}

ParquetFile::~ParquetFile() = default;

std::span<const Rows> ParquetFile::row_groups() const { return reader_->groups; }

std::int64_t ParquetFile::num_rows() const {
  return row_groups().empty() ? 0 : row_groups().back().first + row_groups().back().n;
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

// Calls use(where, chunk) for the rows of a column, as the chunks that Arrow made of them.
template <class Use>
void ParquetFile::ForEachChunk(const std::string& column, const Rows& rows, const Use& use) {
  const std::string where = fmt::format("{}: column '{}'", path_.string(), column);
  ReadErrors(where).Guard([&] {
    for (const std::shared_ptr<arrow::Array>& chunk : reader_->Read(where, column, rows)) {
      use(where, chunk);
    }
  });
}

template <class T>
std::vector<T> ParquetFile::ReadNumbers(const std::string& column, const Rows& rows,
                                        std::int64_t n_per_row) {
  std::vector<T> numbers;
  ForEachChunk(column, rows, [&](const std::string& where, const auto& chunk) {
    const std::shared_ptr<arrow::Array> values = FlattenLists(where, chunk);
    if (values->length() != chunk->length() * n_per_row) {
      throw DataError("{}: {} rows have {} values, expected {} per row", where, chunk->length(),
                      values->length(), n_per_row);
    }
    if constexpr (std::is_same_v<T, float>) {
      using namespace arrow;
      const auto inexact = FindInexact<Int32Array, Int64Array, UInt32Array, UInt64Array>(*values);
      if (inexact) {
        const std::int64_t row = rows.first + (std::ssize(numbers) + *inexact) / n_per_row;
        reader::RefuseInexact(fmt::format("{}, row {}", where, row),
                              ReadErrors(where).Check(values->GetScalar(*inexact))->ToString());
      }
    }
    if (!TryAppendNumbers(*values, &numbers)) {
      throw DataError("{}: expected {}, found {}", where,
                      std::floating_point<T> ? "numbers" : "integers", chunk->type()->ToString());
    }
  });
  return numbers;
}

template std::vector<float> ParquetFile::ReadNumbers(const std::string&, const Rows&, std::int64_t);
template std::vector<double> ParquetFile::ReadNumbers(const std::string&, const Rows&,
                                                      std::int64_t);
template std::vector<std::int64_t> ParquetFile::ReadNumbers(const std::string&, const Rows&,
                                                            std::int64_t);

std::vector<std::string> ParquetFile::ReadTexts(const std::string& column) {
  std::vector<std::string> texts;
  ForEachChunk(column, {0, num_rows()}, [&](const std::string& where, const auto& chunk) {
    if (TryAppendTexts(*chunk, &texts)) return;
    throw DataError("{}: expected texts without nulls, found {}", where, chunk->type()->ToString());
  });
  return texts;
}

std::vector<std::vector<std::string>> ParquetFile::ReadTextLists(const std::string& column) {
  std::vector<std::vector<std::string>> lists;
  const auto append = [&](const auto& array) {
    for (std::int64_t i = 0; i < array.length(); ++i) {
      if (!TryAppendTexts(*array.value_slice(i), &lists.emplace_back())) return false;
    }
    return array.null_count() == 0;
  };
  ForEachChunk(column, {0, num_rows()}, [&](const std::string& where, const auto& chunk) {
    const arrow::Type::type type = chunk->type_id();
    const bool is_text = type == arrow::Type::LIST
                             ? append(static_cast<const arrow::ListArray&>(*chunk))
                             : type == arrow::Type::LARGE_LIST &&
                                   append(static_cast<const arrow::LargeListArray&>(*chunk));
    if (is_text) return;
    throw DataError("{}: expected lists of texts, found {}", where, chunk->type()->ToString());
  });
  return lists;
}

struct ParquetTable::Content {
  std::vector<std::shared_ptr<void>> memory;  // of copied columns
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  arrow::KeyValueMetadata metadata;

  void Add(const std::string& name, std::shared_ptr<arrow::Array> column) {
    fields.push_back(arrow::field(name, column->type()));
    columns.push_back(std::move(column));
  }
};

ParquetTable::ParquetTable() : content_(std::make_unique<Content>()) {}
ParquetTable::~ParquetTable() = default;

void ParquetTable::AddFloats(const std::string& name, std::span<const float> values,
                             std::size_t n_per_row) {
  auto numbers = MakeArray<arrow::FloatBuilder>(name, values);
  if (n_per_row == 1) {
    content_->Add(name, std::move(numbers));
    return;
  }
  const auto type = arrow::fixed_size_list(arrow::field("element", arrow::float32()),
                                           static_cast<std::int32_t>(n_per_row));
  content_->Add(name,
                WriteErrors(name).Check(arrow::FixedSizeListArray::FromArrays(numbers, type)));
}

void ParquetTable::AddIntegers(const std::string& name, std::span<const std::int64_t> values) {
  content_->Add(name, MakeArray<arrow::Int64Builder>(name, values));
}

void ParquetTable::AddDoubles(const std::string& name, std::span<const double> values) {
  content_->Add(name, MakeArray<arrow::DoubleBuilder>(name, values));
}

void ParquetTable::AddTexts(const std::string& name, std::span<const std::string> values) {
  content_->Add(name, MakeTexts(name, values));
}

void ParquetTable::AddTextLists(const std::string& name,
                                std::span<const std::vector<std::string>> values) {
  const auto texts = std::make_shared<arrow::StringBuilder>();
  arrow::ListBuilder builder(arrow::default_memory_pool(), texts,
                             arrow::list(arrow::field("element", arrow::utf8())));
  const ArrowErrors errors = WriteErrors(name);
  for (const std::vector<std::string>& list : values) {
    errors.Check(builder.Append());
    for (const std::string& text : list) errors.Check(texts->Append(text));
  }
  content_->Add(name, Finish(name, &builder));
}

void ParquetTable::AddDoubleLists(const std::string& name, std::span<const double> values,
                                  std::size_t n_per_row, int n_nested) {
  std::shared_ptr<arrow::Array> numbers = MakeArray<arrow::DoubleBuilder>(name, values);
  for (int i = 0; i < n_nested; ++i) numbers = MakeLists(name, numbers, 1);
  content_->Add(name, MakeLists(name, numbers, n_per_row));
}

void ParquetTable::AddIntegerLists(const std::string& name, std::span<const std::int64_t> values) {
  content_->Add(name, MakeLists(name, MakeArray<arrow::Int64Builder>(name, values), 1));
}

void ParquetTable::AddImages(const std::string& name, std::span<const std::string> files,
                             std::span<const std::string> names) {
  arrow::BinaryBuilder bytes;
  const ArrowErrors errors = WriteErrors(name);
  for (const std::string& file : files) errors.Check(bytes.Append(file));
  const arrow::FieldVector fields = {arrow::field("bytes", arrow::binary()),
                                     arrow::field("path", arrow::utf8())};
  content_->Add(name, errors.Check(arrow::StructArray::Make(
                          {Finish(name, &bytes), MakeTexts(name, names)}, fields)));
}

void ParquetTable::CopyColumn(const std::string& name, const ParquetFile& file, const Rows& rows) {
  const ArrowErrors errors =
      WriteErrors(fmt::format("a copy of the column '{}' of {}", name, file.path_.string()));
  errors.Guard([&] {
    std::shared_ptr<arrow::Schema> schema;
    errors.Check(file.reader_->file->GetSchema(&schema));
    const auto array =
        errors.Check(arrow::Concatenate(file.reader_->Read(errors.where, name, rows)));
    content_->memory.push_back(file.reader_);
    content_->fields.push_back(schema->GetFieldByName(name));
    content_->columns.push_back(array);
  });
}

void ParquetTable::SetMetadata(const std::string& key, const std::string& text) {
  content_->metadata.Append(key, text);
}

void ParquetTable::Write(const fs::path& path) const {
  const ArrowErrors errors = WriteErrors(path.string());
  errors.Guard([&] {
    const auto schema = arrow::schema(content_->fields, content_->metadata.Copy());
    const auto table = arrow::Table::Make(schema, content_->columns);
    const auto file = errors.Check(arrow::io::FileOutputStream::Open(path.string()));
    const auto restore_types = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    errors.Check(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), file,
                                            std::max<std::int64_t>(table->num_rows(), 1),
                                            Properties(*schema), restore_types));
    errors.Check(file->Close());
  });
}

struct ParquetJoiner::Output {
  fs::path path;
  std::shared_ptr<arrow::io::FileOutputStream> file;
  std::unique_ptr<parquet::arrow::FileWriter> writer;
  std::int64_t n_rows = 0;

  std::shared_ptr<arrow::Table> Read(const fs::path& part) const {
    const ArrowErrors errors = WriteErrors(path.string());
    const auto input = errors.Check(arrow::io::ReadableFile::Open(part.string()));
    const auto reader = errors.Check(parquet::arrow::OpenFile(input, arrow::default_memory_pool()));
    return errors.Check(reader->ReadTable());
  }
};

ParquetJoiner::ParquetJoiner(const fs::path& path, const fs::path& first)
    : output_(std::make_unique<Output>()) {
  output_->path = path;
  const ArrowErrors errors = WriteErrors(path.string());
  errors.Guard([&] {
    const std::shared_ptr<arrow::Schema> schema = output_->Read(first)->schema();
    output_->file = errors.Check(arrow::io::FileOutputStream::Open(path.string()));
    output_->writer = errors.Check(parquet::arrow::FileWriter::Open(
        *schema, arrow::default_memory_pool(), output_->file, Properties(*schema),
        parquet::ArrowWriterProperties::Builder().store_schema()->build()));
  });
}

ParquetJoiner::~ParquetJoiner() = default;

void ParquetJoiner::Append(const fs::path& part) {
  const ArrowErrors errors = WriteErrors(output_->path.string());
  errors.Guard([&] {
    const std::shared_ptr<arrow::Table> table = output_->Read(part);
    errors.Check(output_->writer->WriteTable(*table, table->num_rows()));
    output_->n_rows += table->num_rows();
  });
}

std::int64_t ParquetJoiner::n_bytes() const {
  return WriteErrors(output_->path.string()).Check(output_->file->Tell());
}

std::int64_t ParquetJoiner::n_rows() const { return output_->n_rows; }

void ParquetJoiner::Finish() {
  const ArrowErrors errors = WriteErrors(output_->path.string());
  errors.Guard([&] {
    errors.Check(output_->writer->Close());
    errors.Check(output_->file->Close());
  });
}

}  // namespace dp_bench::lerobot
