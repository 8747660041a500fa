#include "report/film_poster.h"

#include <algorithm>

#include "dp_bench/error.h"
#include "media/png.h"
#include "media/video_frames.h"
#include "report/render.h"

namespace dp_bench::report {
namespace {

// Means of squares of pixels; at most about `width` wide.
RgbImage ShrunkTo(const RgbImage& image, int width) {
  const int side = std::max(1, (image.width + width - 1) / width);
  RgbImage small(image.width / side, image.height / side);
  for (std::size_t i = 0; i < small.pixels.size(); ++i) {
    const auto at = static_cast<int>(i);
    const int x = at / 3 % small.width * side;
    const int y = at / 3 / small.width * side;
    int sum = 0;
    for (int dy = 0; dy < side; ++dy) {
      for (int dx = 0; dx < side; ++dx) {
        sum +=
            image.pixels[static_cast<std::size_t>(3 * ((y + dy) * image.width + x + dx) + at % 3)];
      }
    }
    small.pixels[i] = static_cast<std::uint8_t>(sum / (side * side));
  }
  return small;
}

}  // namespace

std::string FilmPoster(const std::filesystem::path& film) {
  constexpr int kWidth = 320;  // [px]
  try {
    media::VideoReader reader(film);
    RgbImage frame(reader.width(), reader.height());
    if (!reader.Read(&frame)) return "";
    return DataUrl("image/png", media::EncodePng(ShrunkTo(frame, kWidth)));
  } catch (const Error&) {  // the page shows that the film is missing
    return "";
  }
}

}  // namespace dp_bench::report
