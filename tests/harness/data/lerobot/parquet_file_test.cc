// Columns of all kinds, written by Arrow.
#include "data/lerobot/parquet_file.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/temporary_folder.h"
#include "support/error_of.h"

namespace dp_bench::lerobot {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kMaxFileBytes = 1 << 24;

template <class Value, class Builder = typename arrow::CTypeTraits<Value>::BuilderType>
std::shared_ptr<arrow::Array> ArrayOf(const std::vector<std::optional<Value>>& values) {
  Builder builder;
  for (const auto& value : values) {
    EXPECT_TRUE((value ? builder.Append(*value) : builder.AppendNull()).ok());
  }
  return builder.Finish().ValueOrDie();
}

// Lists of numbers; the lengths may differ.
std::shared_ptr<arrow::Array> ListsOf(const std::vector<std::vector<float>>& lists) {
  auto values = std::make_shared<arrow::FloatBuilder>();
  arrow::ListBuilder builder(arrow::default_memory_pool(), values);
  for (const std::vector<float>& list : lists) {
    EXPECT_TRUE(builder.Append().ok());
    EXPECT_TRUE(values->AppendValues(list).ok());
  }
  return builder.Finish().ValueOrDie();
}

// {bytes, path}, as Hugging Face's datasets store images.
std::shared_ptr<arrow::Array> ImagesOf(const std::vector<std::optional<std::string>>& files) {
  const auto bytes = ArrayOf<std::string, arrow::BinaryBuilder>(files);
  const auto paths = ArrayOf(std::vector<std::optional<std::string>>(files.size(), "a.png"));
  return arrow::StructArray::Make({bytes, paths}, std::vector<std::string>{"bytes", "path"})
      .ValueOrDie();
}

class ParquetFileTest : public ::testing::Test {
 protected:
  std::filesystem::path Write(const std::shared_ptr<arrow::Array>& column,
                              std::int64_t group_rows) {
    const auto schema = arrow::schema({arrow::field("a.b", column->type())});
    const auto sink = arrow::io::FileOutputStream::Open(path().string()).ValueOrDie();
    const auto table = arrow::Table::Make(schema, {column});
    EXPECT_TRUE(
        parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, group_rows).ok());
    return path();
  }

  template <class T>
  std::vector<T> ReadBack(const std::shared_ptr<arrow::Array>& column, std::int64_t n_per_row = 1) {
    ParquetFile file(Write(column, 2), kMaxFileBytes);
    std::vector<T> all;
    for (const Rows& group : file.row_groups()) {
      const std::vector<T> part = file.ReadNumbers<T>("a.b", group, n_per_row);
      all.insert(all.end(), part.begin(), part.end());
    }
    EXPECT_EQ(file.ReadNumbers<T>("a.b", n_per_row), all);
    return all;
  }

  template <class T>
  std::string Refusal(const std::shared_ptr<arrow::Array>& column, std::int64_t n_per_row = 1) {
    return MessageOf(ErrorCode::kData, [&] { ReadBack<T>(column, n_per_row); });
  }

  std::filesystem::path path() const { return folder_.path() / "a.parquet"; }

 private:
  core::TemporaryFolder folder_;
};

TEST_F(ParquetFileTest, ReadsNumbersOfEveryType) {
  for (const auto& column : {ArrayOf<std::int8_t>({1, 2, 3}), ArrayOf<std::uint16_t>({1, 2, 3}),
                             ArrayOf<std::int32_t>({1, 2, 3}), ArrayOf<std::int64_t>({1, 2, 3})}) {
    EXPECT_THAT(ReadBack<std::int64_t>(column), ElementsAre(1, 2, 3));
    EXPECT_THAT(ReadBack<float>(column), ElementsAre(1.0F, 2.0F, 3.0F));
  }
  EXPECT_THAT(ReadBack<double>(ArrayOf<double>({0.1, 2})), ElementsAre(0.1, 2.0));
  EXPECT_THAT(ReadBack<float>(ArrayOf<bool>({true, false})), ElementsAre(1.0F, 0.0F));
}

TEST_F(ParquetFileTest, IntegersThatFloat32WouldRoundNameTheirRow) {
  const auto column = ArrayOf<std::int64_t>({1, 2, 16777216, 16777217, 3});
  EXPECT_THAT(Refusal<float>(column),
              AllOf(HasSubstr("a.parquet: column 'a.b', row 3"), HasSubstr("found 16777217")));
  EXPECT_THAT(ReadBack<double>(column), ElementsAre(1, 2, 16777216, 16777217, 3));
  EXPECT_THAT(ReadBack<float>(ArrayOf<double>({16777217})), ElementsAre(16777216.0F));
}

TEST_F(ParquetFileTest, ListsHaveTheSameLengthInEveryRow) {
  EXPECT_THAT(ReadBack<float>(ListsOf({{1, 2}, {3, 4}, {5, 6}}), 2), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Refusal<float>(ListsOf({{1, 2}, {3}, {5, 6}}), 2),
              AllOf(HasSubstr("a.parquet: column 'a.b'"), HasSubstr("row 1 has 1 values")));
  EXPECT_THAT(Refusal<float>(ListsOf({{1, 2}, {3, 4}}), 3), HasSubstr("expected 3 per row"));
}

TEST_F(ParquetFileTest, NullsAndOtherTypesAreRefused) {
  EXPECT_THAT(Refusal<float>(ArrayOf<float>({1, {}})), HasSubstr("1 values are null"));
  EXPECT_THAT(Refusal<std::int64_t>(ArrayOf<float>({1, 2})),
              HasSubstr("expected integers, found float"));
  EXPECT_THAT(Refusal<float>(ArrayOf<std::string>({"1", "2"})),
              HasSubstr("expected numbers, found string"));
}

TEST_F(ParquetFileTest, ReadsTexts) {
  ParquetFile file(Write(ArrayOf<std::string>({"a", "", "c"}), 3), kMaxFileBytes);
  EXPECT_THAT(file.ReadTexts("a.b"), ElementsAre("a", "", "c"));
  EXPECT_TRUE(file.HasColumn("a.b"));
  EXPECT_FALSE(file.HasColumn("a"));
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { file.ReadTexts("x"); }),
              HasSubstr("column 'x': there is no such column"));
}

TEST_F(ParquetFileTest, AColumnThatNeedsMoreMemoryIsRefused) {
  std::vector<std::optional<double>> values(1 << 20);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) * 0.1;
  const auto file = Write(ArrayOf<double>(values), 1 << 20);
  EXPECT_EQ(ParquetFile(file, 64 << 20).ReadNumbers<double>("a.b").size(), values.size());
  EXPECT_THAT(
      MessageOf(ErrorCode::kData, [&] { ParquetFile(file, 1 << 20).ReadNumbers<double>("a.b"); }),
      HasSubstr("a.parquet"));
}

TEST_F(ParquetFileTest, ImagesAreReadInAnyOrder) {
  std::vector<std::optional<std::string>> files;
  for (int i = 0; i < 50; ++i) {
    files.emplace_back(
        std::string(static_cast<std::size_t>(1 + i * 137 % 5000), static_cast<char>('a' + i % 26)));
  }
  ParquetImages images(Write(ImagesOf(files), 8), "a.b", kMaxFileBytes);
  for (int i = 0; i < 150; ++i) {
    const std::size_t row = static_cast<std::size_t>(i < 50 ? i : i * 7 % 50);
    const std::span<const std::byte> bytes = images.Read(static_cast<std::int64_t>(row));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), files[row]);
  }
}

TEST_F(ParquetFileTest, AnImageThatIsMissingIsRefused) {
  ParquetImages images(Write(ImagesOf({"one", std::nullopt, "three"}), 8), "a.b", kMaxFileBytes);
  EXPECT_EQ(images.Read(0).size(), 3U);
  const auto refusal = [&](std::int64_t row) {
    return MessageOf(ErrorCode::kData, [&] { images.Read(row); });
  };
  EXPECT_THAT(refusal(1), AllOf(HasSubstr("row 1"), HasSubstr("found null")));
  EXPECT_EQ(images.Read(2).size(), 5U);
  EXPECT_THAT(refusal(3), HasSubstr("the file has 3 rows"));
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { ParquetImages(path(), "else", kMaxFileBytes); }),
              HasSubstr("column 'else' holds no images"));
}

}  // namespace
}  // namespace dp_bench::lerobot
