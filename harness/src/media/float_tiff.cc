#include "media/float_tiff.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string_view>

#include "dp_bench/error.h"

namespace dp_bench::media {
namespace {

// Section 8 of the specification.
enum Tag : std::uint32_t {
  kWidth = 256,
  kHeight = 257,
  kBitsPerSample = 258,
  kCompression = 259,
  kStripOffsets = 273,
  kSamplesPerPixel = 277,
  kStripByteCounts = 279,
  kSampleFormat = 339
};

constexpr std::uint32_t kFloatingPoint = 3;
constexpr std::uint32_t kUncompressed = 1;
constexpr std::uint32_t kMaxSize = 1 << 20;  // [px] in each direction

[[noreturn]] void Refuse(std::string_view what) {
  throw Error(ErrorCode::kMedia, fmt::format("a TIFF file {}", what));
}

class TiffFile {
 public:
  TiffFile(std::span<const std::byte> bytes, bool is_big_endian)
      : bytes_(bytes), is_big_endian_(is_big_endian) {}

  std::uint32_t Get(std::size_t offset, std::size_t n_bytes) const {
    std::uint32_t value = 0;
    const std::span<const std::byte> part = Part(offset, n_bytes);
    for (std::size_t i = 0; i < n_bytes; ++i) {
      const std::size_t place = is_big_endian_ ? i : n_bytes - 1 - i;
      value = value << 8 | std::to_integer<std::uint32_t>(part[place]);
    }
    return value;
  }

  std::span<const std::byte> Part(std::size_t offset, std::size_t n_bytes) const {
    if (offset > bytes_.size() || n_bytes > bytes_.size() - offset) Refuse("is cut off");
    return bytes_.subspan(offset, n_bytes);
  }

  // The whole numbers of an entry: SHORT or LONG, in the entry itself if they fit there.
  std::vector<std::uint32_t> Numbers(std::size_t entry) const {
    const std::uint32_t type = Get(entry + 2, 2);
    const std::size_t count = Get(entry + 4, 4);
    const std::size_t size = type == 3 ? 2 : 4;
    if (type != 3 && type != 4) Refuse(fmt::format("has a size of type {}", type));
    if (count > bytes_.size() / size) Refuse("is cut off");
    const std::size_t begin = size * count <= 4 ? entry + 8 : Get(entry + 8, 4);
    std::vector<std::uint32_t> numbers;
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(Get(begin + i * size, size));
    return numbers;
  }

 private:
  std::span<const std::byte> bytes_;
  bool is_big_endian_;
};

}  // namespace

std::optional<FloatTiff> ParseFloatTiff(std::span<const std::byte> bytes) {
  using namespace std::string_view_literals;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool is_big_endian = text.starts_with("MM\0*"sv);
  if (!is_big_endian && !text.starts_with("II*\0"sv)) return std::nullopt;

  const TiffFile file(bytes, is_big_endian);
  const std::size_t directory = file.Get(4, 4);
  const std::uint32_t n_entries = file.Get(directory, 2);
  std::map<std::uint32_t, std::vector<std::uint32_t>> tags;
  for (std::uint32_t i = 0; i < n_entries; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{12} * i;
    const std::uint32_t tag = file.Get(entry, 2);
    constexpr std::array<std::uint32_t, 8> kKnown = {
        kWidth,        kHeight,          kBitsPerSample,   kCompression,
        kStripOffsets, kSamplesPerPixel, kStripByteCounts, kSampleFormat};
    if (std::ranges::find(kKnown, tag) != kKnown.end()) tags[tag] = file.Numbers(entry);
  }
  const auto get = [&tags](Tag tag, std::uint32_t otherwise) {
    const auto found = tags.find(tag);
    return found == tags.end() || found->second.empty() ? otherwise : found->second.front();
  };
  if (get(kSampleFormat, 1) != kFloatingPoint) return std::nullopt;

  if (get(kBitsPerSample, 1) != 32 || get(kSamplesPerPixel, 1) != 1 ||
      get(kCompression, kUncompressed) != kUncompressed) {
    Refuse(
        fmt::format("has {} floating-point numbers of {} bits per pixel with compression {}; "
                    "expected one of 32 bits without compression",
                    get(kSamplesPerPixel, 1), get(kBitsPerSample, 1), get(kCompression, 1)));
  }
  const std::uint32_t width = get(kWidth, 0);
  const std::uint32_t height = get(kHeight, 0);
  if (std::min(width, height) == 0 || std::max(width, height) > kMaxSize) {
    Refuse(fmt::format("has {} x {} pixels", width, height));
  }
  FloatTiff tiff{.width = static_cast<int>(width),
                 .height = static_cast<int>(height),
                 .is_big_endian = is_big_endian};
  const std::vector<std::uint32_t>& offsets = tags[kStripOffsets];
  const std::vector<std::uint32_t>& counts = tags[kStripByteCounts];
  if (offsets.size() != counts.size()) Refuse("has strips without a size");
  std::uint64_t n_bytes = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    tiff.strips.push_back(file.Part(offsets[i], counts[i]));
    n_bytes += counts[i];
  }
  const std::uint64_t expected = sizeof(float) * std::uint64_t{width} * height;
  if (n_bytes != expected) {
    Refuse(fmt::format("of {} x {} pixels has {} bytes of pixels, expected {}", width, height,
                       n_bytes, expected));
  }
  return tiff;
}

}  // namespace dp_bench::media
