// Several videos side by side in one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dp_bench/env.h"
#include "media/drawing.h"

namespace dp_bench::media {

/// One tile of the grid.
struct GridVideo {
  std::filesystem::path path;
  Colour frame_colour = {};  // of the line around it
  std::string caption = {};  // drawn in its corner by DrawCaption
  int n_repeats = 1;         // how often each image is shown: 3 is slow motion
};

struct VideoGridOptions {
  int n_columns = 4;
  int crf = 22;
};

/// Writes a video (.mp4 or .gif) of all videos at once, in rows of `n_columns`, at the frame rate
/// of the first. Each tile has the size of the largest video. A video that ends early stays at its
/// last image. Throws Error{kMedia} naming the file that cannot be read or written, Error{kUsage}
/// without videos.
void WriteVideoGrid(const std::vector<GridVideo>& videos, const std::filesystem::path& path,
                    const VideoGridOptions& options = {});

/// Writes an image (.png) with a row for each video: its VideoStrip of `options.n_columns` frames
/// and its caption. A row is as wide as the widest. Throws Error{kMedia} naming the file that
/// cannot be read or written, Error{kUsage} without videos or with less than two columns.
void WriteVideoStrips(const std::vector<GridVideo>& videos, const std::filesystem::path& path,
                      const VideoGridOptions& options = {});

/// The video at a glance: places `n_frames` (at least 2) frames of the video from left to right:
/// the first, the last, and frames evenly between. A shorter video gives each of its frames once.
/// Throws Error{kMedia} if the file is not a readable video or has no frame.
RgbImage VideoStrip(const std::filesystem::path& video, int n_frames);

}  // namespace dp_bench::media
