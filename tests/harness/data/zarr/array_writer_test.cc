// Arrays on disk: the same bytes in every way of writing them.
#include "data/zarr/array_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "data/zarr/chunk_codec.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::zarr {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

ZarrLayout PairsInChunksOf(std::int64_t chunk_rows) {
  return {.dtype = DType::kFloat32, .row_shape = {2}, .chunk_rows = chunk_rows};
}

// Rows [begin, end) of an array of ascending numbers.
std::vector<std::byte> Rows(std::int64_t begin, std::int64_t end) {
  std::vector<float> rows(static_cast<std::size_t>(2 * (end - begin)));
  std::iota(rows.begin(), rows.end(), static_cast<float>(2 * begin));
  const std::span<const std::byte> bytes = std::as_bytes(std::span(rows));
  return {bytes.begin(), bytes.end()};
}

void Append(ZarrArrayWriter& writer, std::int64_t n) {
  writer.Append(Rows(writer.n_rows(), writer.n_rows() + n));
}

std::map<std::string, std::string> Files(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = core::ReadTextFile(entry.path(), 1 << 20);
  }
  return files;
}

TEST(ZarrArrayWriter, BytesDoNotDependOnHowRowsWereAppended) {
  const ScratchFolder scratch;
  ZarrArrayWriter at_once(scratch.path() / "a", PairsInChunksOf(4), 0);
  Append(at_once, 11);
  at_once.Flush();
  EXPECT_THAT(Files(scratch.path() / "a"),
              testing::UnorderedElementsAre(testing::Key(".zarray"), testing::Key("0.0"),
                                            testing::Key("1.0"), testing::Key("2.0")));

  ZarrArrayWriter one_by_one(scratch.path() / "b", PairsInChunksOf(4), 0);
  for (int i = 0; i < 11; ++i) {
    Append(one_by_one, 1);
    one_by_one.Flush();
  }
  EXPECT_EQ(Files(scratch.path() / "a"), Files(scratch.path() / "b"));
}

TEST(ZarrArrayWriter, ContinuesBehindAnyRowAndForgetsTheRest) {
  const ScratchFolder scratch;
  ZarrArrayWriter whole(scratch.path() / "whole", PairsInChunksOf(4), 0);
  Append(whole, 11);
  whole.Flush();
  for (const std::int64_t kept : {0, 3, 4, 5, 8, 11}) {
    const fs::path folder = scratch.path() / "broken";
    {
      ZarrArrayWriter first(folder, PairsInChunksOf(4), 0);
      Append(first, 14);
      first.Flush();
    }
    ZarrArrayWriter second(folder, PairsInChunksOf(4), kept);
    Append(second, 11 - second.n_rows());
    second.Flush();
    EXPECT_EQ(Files(folder), Files(scratch.path() / "whole")) << kept;
  }
}

TEST(ZarrArrayWriter, EncodedChunksEqualAppendedRows) {
  const ScratchFolder scratch;
  const ZarrLayout layout = PairsInChunksOf(1);
  ZarrArrayWriter appended(scratch.path() / "a", layout, 0);
  Append(appended, 3);
  appended.Flush();
  ZarrArrayWriter encoded(scratch.path() / "b", layout, 0);
  for (std::int64_t i = 0; i < 3; ++i) {
    encoded.AppendEncoded(EncodeChunk(layout.dtype, Rows(i, i + 1)));
  }
  encoded.Flush();
  EXPECT_EQ(Files(scratch.path() / "a"), Files(scratch.path() / "b"));
}

TEST(ZarrArrayWriter, ReadsItsRowsBack) {
  const ScratchFolder scratch;
  ZarrArrayWriter writer(scratch.path() / "a", PairsInChunksOf(4), 0);
  Append(writer, 6);
  writer.Flush();
  EXPECT_EQ(ZarrArrayWriter::RowsOnDisk(scratch.path() / "a"), 6);
  for (const std::int64_t row : {0, 3, 5}) EXPECT_EQ(writer.ReadRow(row), Rows(row, row + 1));
}

TEST(ZarrArrayWriter, ChunksHaveAboutAMegabyteOrOneRow) {
  EXPECT_EQ(RowsPerChunk(8), 131072);
  EXPECT_EQ(RowsPerChunk(96 * 96 * 3), 37);
  EXPECT_EQ(RowsPerChunk(640 * 480 * 2), 1);
  EXPECT_EQ(RowsPerChunk(std::size_t{5} << 20), 1);
}

TEST(ZarrArrayWriter, DamagedOrForeignArraysAreNamed) {
  const ScratchFolder scratch;
  const fs::path folder = scratch.path() / "a";
  const auto write = [&folder] {
    ZarrArrayWriter writer(folder, PairsInChunksOf(4), 0);
    Append(writer, 6);
    writer.Flush();
  };
  const auto reopen = [&folder] { ZarrArrayWriter(folder, PairsInChunksOf(4), 6); };
  write();
  core::WriteFileAtomically(folder / "1.0", "no blosc");
  EXPECT_THAT(MessageOf(ErrorCode::kData, reopen), HasSubstr("1.0: "));
  write();
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { ZarrArrayWriter(folder, PairsInChunksOf(8), 6); }),
              HasSubstr("another version"));
  core::WriteFileAtomically(folder / ".zarray", "[]");
  EXPECT_THAT(MessageOf(ErrorCode::kData, reopen), HasSubstr(".zarray: expected a JSON object"));
}

}  // namespace
}  // namespace dp_bench::zarr
