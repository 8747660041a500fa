#include "media/png.h"

#include <zlib.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/atomic_file.h"
#include "dp_bench/error.h"

namespace dp_bench::media {
namespace {

constexpr int kCompression = 6;  // zlib's own default

void AppendBigEndian(std::uint32_t value, std::string* out) {
  for (const int shift : {24, 16, 8, 0}) *out += static_cast<char>(value >> shift);
}

// Section 5.3: length, type, data, CRC of type and data.
void AppendChunk(std::string_view type, std::string_view data, std::string* out) {
  AppendBigEndian(static_cast<std::uint32_t>(data.size()), out);
  const std::size_t begin = out->size();
  *out += type;
  *out += data;
  const auto* const covered = reinterpret_cast<const Bytef*>(out->data() + begin);
  AppendBigEndian(
      static_cast<std::uint32_t>(crc32(0, covered, static_cast<uInt>(out->size() - begin))), out);
}

std::string Header(const RgbImage& picture) {
  std::string header;
  AppendBigEndian(static_cast<std::uint32_t>(picture.width), &header);
  AppendBigEndian(static_cast<std::uint32_t>(picture.height), &header);
  header += std::string("\x08\x02\x00\x00\x00", 5);  // 8 bits, RGB, deflate, filters, no interlace
  return header;
}

// Section 9: each row after the number of its filter; 0 is none.
std::string CompressedRows(const RgbImage& picture) {
  const auto row_bytes = static_cast<std::size_t>(picture.width) * 3;
  std::vector<std::uint8_t> rows;
  rows.reserve((row_bytes + 1) * static_cast<std::size_t>(picture.height));
  for (int row = 0; row < picture.height; ++row) {
    rows.push_back(0);
    const auto begin = picture.pixels.begin() + static_cast<std::ptrdiff_t>(row_bytes) * row;
    rows.insert(rows.end(), begin, begin + static_cast<std::ptrdiff_t>(row_bytes));
  }
  uLongf size = compressBound(rows.size());
  std::string compressed(size, '\0');
  const int status = compress2(reinterpret_cast<Bytef*>(compressed.data()), &size, rows.data(),
                               rows.size(), kCompression);
  DPB_ASSERT(status == Z_OK);  // the buffer is large enough
  compressed.resize(size);
  return compressed;
}

}  // namespace

std::string EncodePng(const RgbImage& picture) {
  std::string file = "\x89PNG\r\n\x1a\n";
  AppendChunk("IHDR", Header(picture), &file);
  AppendChunk("IDAT", CompressedRows(picture), &file);
  AppendChunk("IEND", "", &file);
  return file;
}

void WritePng(const std::filesystem::path& path, const RgbImage& picture) {
  core::WriteFileAtomically(path, std::string_view(EncodePng(picture)));
}

}  // namespace dp_bench::media
