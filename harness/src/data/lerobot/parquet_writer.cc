#include "data/lerobot/parquet_writer.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <string_view>

#include "data/lerobot/arrow_errors.h"
#include "dp_bench/error.h"

namespace dp_bench::lerobot {
namespace {

namespace fs = std::filesystem;

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
    // pictures do not repeat
    if (field->type()->id() == arrow::Type::STRUCT) {
      properties.disable_dictionary(field->name() + ".bytes");
    }
  }
  return properties.build();
}

}  // namespace

struct ParquetTable::Content {
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

void ParquetTable::AddIntegerLists(const std::string& name, std::span<const std::int64_t> values,
                                   std::size_t n_per_row) {
  const auto numbers = MakeArray<arrow::Int64Builder>(name, values);
  content_->Add(name, MakeLists(name, numbers, n_per_row));
}

void ParquetTable::AddPictures(const std::string& name, std::span<const std::string> files,
                               std::span<const std::string> names) {
  arrow::BinaryBuilder bytes;
  const ArrowErrors errors = WriteErrors(name);
  for (const std::string& file : files) errors.Check(bytes.Append(file));
  const arrow::FieldVector fields = {arrow::field("bytes", arrow::binary()),
                                     arrow::field("path", arrow::utf8())};
  content_->Add(name, errors.Check(arrow::StructArray::Make(
                          {Finish(name, &bytes), MakeTexts(name, names)}, fields)));
}

void ParquetTable::CopyColumn(const std::string& name, const fs::path& file, std::int64_t first_row,
                              std::int64_t n_rows) {
  const ArrowErrors errors =
      WriteErrors(fmt::format("a copy of the column '{}' of {}", name, file.string()));
  errors.Guard([&] {
    const auto input = errors.Check(arrow::io::ReadableFile::Open(file.string()));
    const auto reader = errors.Check(parquet::arrow::OpenFile(input, arrow::default_memory_pool()));
    std::shared_ptr<arrow::Schema> schema;
    errors.Check(reader->GetSchema(&schema));
    const int column = schema->GetFieldIndex(name);
    arrow::ArrayVector chunks;
    std::int64_t row = 0;  // first one of the group
    for (int group = 0; column >= 0 && group < reader->num_row_groups(); ++group) {
      const std::int64_t n = reader->parquet_reader()->metadata()->RowGroup(group)->num_rows();
      const std::int64_t begin = std::max(first_row - row, std::int64_t{0});
      const std::int64_t end = std::min(first_row + n_rows - row, n);
      row += n;
      if (begin >= end) continue;
      std::shared_ptr<arrow::ChunkedArray> values;
      errors.Check(reader->RowGroup(group)->Column(column)->Read(&values));
      const auto wanted = values->Slice(begin, end - begin);
      chunks.insert(chunks.end(), wanted->chunks().begin(), wanted->chunks().end());
    }
    const auto array = errors.Check(arrow::Concatenate(chunks));
    content_->fields.push_back(schema->field(column));
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
