// Images of another size, as policies for 224 x 224 pixels want them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dp_bench::media {

/// Pixels of 8 bits in three channels, in any layout. Not owned.
struct PixelView {
  const std::byte* data = nullptr;
  int height = 0;
  int width = 0;
  std::array<std::int64_t, 3> strides = {};  // [bytes] from one row, column and channel to the next
};

/// Fills `to` [height, width, 3] with the image, as large as it fits, in the middle, and black
/// around it: the bits of openpi's resize_with_pad. Bilinear; where it shrinks, over all pixels
/// that fall onto one.
void ResizeWithPad(const PixelView& from, std::span<std::byte> to, int height, int width);

}  // namespace dp_bench::media
