// TIFF files (TIFF 6.0) with one floating-point number per pixel, in which LeRobot stores depth in
// metres. libav reads only whole numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace dp_bench::media {

/// One uncompressed picture of float32. The rows follow each other through all strips.
struct FloatTiff {
  int width = 0;   // [px]
  int height = 0;  // [px]
  bool is_big_endian = false;
  std::vector<std::span<const std::byte>> strips;  // parts of the file
};

/// Nothing if `file` is no TIFF file with floating-point numbers. Throws Error{kMedia} if it is one
/// that is damaged, compressed, or has more than one channel.
std::optional<FloatTiff> ParseFloatTiff(std::span<const std::byte> file);

}  // namespace dp_bench::media
