// The images of a Parquet file. See parquet_file.h.
#include <parquet/api/reader.h>

#include <algorithm>

#include "core/errors.h"
#include "core/regular_file.h"
#include "data/lerobot/arrow_errors.h"
#include "data/lerobot/parquet_file.h"

namespace dp_bench::lerobot {

namespace fs = std::filesystem;

struct ParquetImages::Reader {
  explicit Reader(std::int64_t limit) : memory(limit) {}

  LimitedMemory memory;  // outlives what was allocated in it
  std::unique_ptr<parquet::ParquetFileReader> file;
  int leaf = -1;                           // the column of the bytes
  std::vector<std::int64_t> group_begins;  // first row of each row group, and the number of rows
  int group = -1;                          // in which `column` is
  std::shared_ptr<parquet::ByteArrayReader> column;
  std::int64_t next_row = 0;
};

ParquetImages::ParquetImages(const fs::path& path, const std::string& column,
                             std::int64_t max_bytes)
    : path_(path), column_(column), reader_(std::make_unique<Reader>(max_bytes)) {
  const core::RegularFile regular(path);
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
      throw DataError("{}: column '{}' holds no images (bytes, path)", path.string(), column);
    }
    r.group_begins.push_back(0);
    for (int i = 0; i < metadata.num_row_groups(); ++i) {
      r.group_begins.push_back(r.group_begins.back() + metadata.RowGroup(i)->num_rows());
    }
  });
}

ParquetImages::~ParquetImages() = default;

std::int64_t ParquetImages::next_row() const { return reader_->next_row; }

std::span<const std::byte> ParquetImages::Read(std::int64_t row) {
  const std::string where = fmt::format("{}: column '{}', row {}", path_.string(), column_, row);
  return ReadErrors(where).Guard([&] {
    Reader& r = *reader_;
    if (row < 0 || row >= r.group_begins.back()) {
      throw DataError("{}: the file has {} rows", where, r.group_begins.back());
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

    parquet::ByteArray image;
    std::int16_t definition = 0;
    std::int64_t n_values = 0;
    const std::int64_t n_levels =
        r.next_row == row ? r.column->ReadBatch(1, &definition, nullptr, &image, &n_values) : 0;
    if (n_levels == 1) ++r.next_row;
    if (n_values != 1) {
      throw DataError("{}: expected the bytes of an image, found {}", where,
                      n_levels == 1 ? "null" : "the end of the column");
    }
    return std::as_bytes(std::span(image.ptr, image.len));
  });
}

}  // namespace dp_bench::lerobot
