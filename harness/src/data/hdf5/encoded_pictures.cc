#include "data/hdf5/encoded_pictures.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "media/decoded_picture.h"

namespace dp_bench::hdf5 {
namespace {

// A JPEG file ends with 0xd9, a PNG file with 0x82.
std::span<const std::byte> WithoutPadding(std::span<const std::byte> row) {
  while (!row.empty() && row.back() == std::byte{0}) row = row.first(row.size() - 1);
  return row;
}

}  // namespace

EncodedPictures::EncodedPictures() = default;
EncodedPictures::~EncodedPictures() = default;

bool EncodedPictures::IsPicture(std::span<const std::byte> row) {
  const std::string_view text(reinterpret_cast<const char*>(row.data()), row.size());
  return text.starts_with("\xff\xd8\xff") || text.starts_with("\x89PNG\r\n\x1a\n");
}

std::unique_ptr<media::PictureDecoder> EncodedPictures::Take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<media::PictureDecoder>();
  std::unique_ptr<media::PictureDecoder> decoder = std::move(idle_.back());
  idle_.pop_back();
  return decoder;
}

void EncodedPictures::GiveBack(std::unique_ptr<media::PictureDecoder> decoder) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(decoder));
}

EncodedPictures::Size EncodedPictures::SizeOf(std::span<const std::byte> row) {
  std::unique_ptr<media::PictureDecoder> decoder = Take();
  const media::DecodedPicture& picture = decoder->Decode(WithoutPadding(row), 0, 0);
  const Size size{.width = picture.width(), .height = picture.height()};
  GiveBack(std::move(decoder));
  return size;
}

void EncodedPictures::Decode(std::span<const std::byte> row, const Size& size,
                             std::span<std::byte> out) {
  std::unique_ptr<media::PictureDecoder> decoder = Take();
  decoder->Decode(WithoutPadding(row), size.width, size.height)
      .ToRgb({reinterpret_cast<std::uint8_t*>(out.data()), out.size()});
  GiveBack(std::move(decoder));
}

}  // namespace dp_bench::hdf5
