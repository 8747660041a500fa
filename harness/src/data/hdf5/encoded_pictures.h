// Pictures as compressed files in the rows of an array: JPEG or PNG, padded with zeros, as ALOHA's
// recordings have them.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace dp_bench::media {
class PictureDecoder;
}

namespace dp_bench::hdf5 {

/// Decodes rows. May be used from several threads at once.
class EncodedPictures {
 public:
  EncodedPictures();
  ~EncodedPictures();

  /// Whether a row begins as a picture file does.
  static bool IsPicture(std::span<const std::byte> row);

  struct Size {
    int width = 0;  // [px]
    int height = 0;
  };

  /// The size of the picture in a row. Throws Error{kMedia} if it is none.
  Size SizeOf(std::span<const std::byte> row);

  /// Writes [height, width, 3] bytes. Throws Error{kMedia} for another size or a damaged picture.
  void Decode(std::span<const std::byte> row, const Size& size, std::span<std::byte> out);

 private:
  std::unique_ptr<media::PictureDecoder> Take();
  void GiveBack(std::unique_ptr<media::PictureDecoder> decoder);

  std::mutex mutex_;
  std::vector<std::unique_ptr<media::PictureDecoder>> idle_;
};

}  // namespace dp_bench::hdf5
