// PNG files (W3C Portable Network Graphics, second edition): pictures without loss.
#pragma once

#include <filesystem>
#include <string>

#include "dp_bench/env.h"

namespace dp_bench::media {

/// The bytes of an RGB8 file. Throws Error{kMedia} where libavcodec fails, as for a picture of no
/// pixels.
std::string EncodePng(const RgbImage& picture);

/// Writes an RGB8 file, whole or not at all. Throws Error{kIo} and Error{kMedia}.
void WritePng(const std::filesystem::path& path, const RgbImage& picture);

}  // namespace dp_bench::media
