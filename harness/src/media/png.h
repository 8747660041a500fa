// PNG files (W3C Portable Network Graphics, second edition): lossless images.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "dp_bench/env.h"

namespace dp_bench::media {

/// Encodes an RGB8 image as the bytes of a file. Throws Error{kMedia} if libavcodec fails, for
/// example on an image without pixels.
std::string EncodePng(const RgbImage& image);

/// Encodes grey levels of 16 bits, [height, width], as the bytes of a file.
std::string EncodeGreyPng(int width, int height, std::span<const std::uint16_t> levels);

/// Writes an RGB8 file, completely or not at all. Throws Error{kIo} and Error{kMedia}.
void WritePng(const std::filesystem::path& path, const RgbImage& image);

}  // namespace dp_bench::media
