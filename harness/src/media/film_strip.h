// Some frames of a video side by side: a film at one glance.
#pragma once

#include <filesystem>

#include "dp_bench/env.h"

namespace dp_bench {

/// `n_frames` (at least 2) frames of the video from left to right, the first and the last among
/// them and the others evenly between; each once when the video has fewer. Throws Error{kMedia}
/// when the file is not a readable video or holds no frame.
RgbImage FilmStrip(const std::filesystem::path& video, int n_frames);

}  // namespace dp_bench
