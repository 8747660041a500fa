// See video_grid.h.
#include "media/video_grid.h"

#include <algorithm>
#include <deque>

#include "core/errors.h"
#include "media/png.h"
#include "media/video_encoder.h"
#include "media/video_frames.h"

namespace dp_bench::media {

namespace {

constexpr int kLine = 3;  // [px], around each tile
constexpr Colour kGridCaptionBar = {24, 24, 24};

// Copies `image` into `canvas`, with its upper left corner at column `left` and row `top`.
void Paste(const RgbImage& image, int left, int top, RgbImage* canvas) {
  const auto row_bytes = static_cast<std::ptrdiff_t>(image.width) * 3;
  for (int y = 0; y < image.height; ++y) {
    const auto from = image.pixels.begin() + y * row_bytes;
    const std::ptrdiff_t place = (static_cast<std::ptrdiff_t>(top) + y) * canvas->width + left;
    std::copy(from, from + row_bytes, canvas->pixels.begin() + place * 3);
  }
}

int CaptionHeight(int image_height) { return std::max(11, image_height / 14); }

// One video and its current image.
class Tile {
 public:
  explicit Tile(const GridVideo& video)
      : video_(video), reader_(video.path), frame_(reader_.width(), reader_.height()) {
    Advance();
  }

  int width() const { return frame_.width; }
  int height() const { return frame_.height; }
  double fps() const { return reader_.fps(); }
  bool has_ended() const { return has_ended_; }

  void Advance() {
    if (has_ended_ || n_shown_++ % video_.n_repeats != 0) return;
    has_ended_ = !reader_.Read(&frame_);
  }

  void Draw(int left, int top, int width, int height, RgbImage* grid) const {
    Fill(left, top, width + 2 * kLine, height + 2 * kLine, video_.frame_colour, grid);
    Fill(left + kLine, top + kLine, width, height, {0, 0, 0}, grid);
    Paste(frame_, left + kLine, top + kLine, grid);
    DrawCaption(video_.caption, left + kLine, top + kLine, CaptionHeight(height), kGridCaptionBar,
                grid);
  }

 private:
  const GridVideo& video_;
  VideoReader reader_;
  RgbImage frame_;
  std::int64_t n_shown_ = 0;
  bool has_ended_ = false;
};

void RequireKnownFormat(const std::filesystem::path& path) {
  const std::filesystem::path extension = path.extension();
  if (extension == ".mp4" || extension == ".gif") return;
  throw UsageError(
      "cannot write '{}': a result is a video, .mp4, or an image, .gif or .png; give a name that "
      "ends in one of them",
      path.string());
}

int CountFrames(const std::filesystem::path& video) {
  VideoReader reader(video);
  RgbImage frame(reader.width(), reader.height());
  int n = 0;
  while (reader.Read(&frame)) ++n;
  return n;
}

}  // namespace

void WriteVideoGrid(const std::vector<GridVideo>& videos, const std::filesystem::path& path,
                    const VideoGridOptions& options) {
  if (videos.empty()) throw UsageError("a grid of videos needs at least one");
  RequireKnownFormat(path);
  std::deque<Tile> tiles;  // which cannot be moved
  int tile_width = 0;
  int tile_height = 0;
  for (const GridVideo& video : videos) {
    const Tile& tile = tiles.emplace_back(video);
    tile_width = std::max(tile_width, tile.width());
    tile_height = std::max(tile_height, tile.height());
  }
  const int n_tiles = static_cast<int>(tiles.size());
  const int n_columns = std::min(options.n_columns, n_tiles);
  const int n_rows = (n_tiles + n_columns - 1) / n_columns;
  const int column_width = tile_width + 2 * kLine;
  const int row_height = tile_height + 2 * kLine;
  RgbImage grid(n_columns * column_width, n_rows * row_height);

  VideoEncoder encoder(
      path,
      {.width = grid.width, .height = grid.height, .fps = tiles.front().fps(), .crf = options.crf});
  while (!std::ranges::all_of(tiles, &Tile::has_ended)) {
    int i = 0;
    for (Tile& tile : tiles) {
      tile.Draw(i % n_columns * column_width, i / n_columns * row_height, tile_width, tile_height,
                &grid);
      tile.Advance();
      ++i;
    }
    encoder.Write(grid);
  }
  encoder.Finish();
}

RgbImage VideoStrip(const std::filesystem::path& video, int n_frames) {
  DPB_ASSERT(n_frames >= 2);
  const int n_in_video = CountFrames(video);
  if (n_in_video == 0) throw MediaError("'{}' holds no frame", video.string());
  n_frames = std::min(n_frames, n_in_video);

  VideoReader reader(video);
  RgbImage frame(reader.width(), reader.height());
  RgbImage strip(reader.width() * n_frames, reader.height());
  int place = 0;
  for (int i = 0; i < n_in_video && reader.Read(&frame); ++i) {
    if (i != place * (n_in_video - 1) / std::max(n_frames - 1, 1)) continue;
    Paste(frame, frame.width * place++, 0, &strip);
  }
  return strip;
}

void WriteVideoStrips(const std::vector<GridVideo>& videos, const std::filesystem::path& path,
                      const VideoGridOptions& options) {
  if (videos.empty()) throw UsageError("an image of videos needs at least one");
  if (options.n_columns < 2) {
    throw UsageError("a video strip has at least 2 columns, found {}", options.n_columns);
  }
  std::vector<RgbImage> strips;
  int width = 0;
  int height = 0;
  for (const GridVideo& video : videos) {
    RgbImage& strip = strips.emplace_back(VideoStrip(video.path, options.n_columns));
    DrawCaption(video.caption, 0, 0, CaptionHeight(strip.height), kGridCaptionBar, &strip);
    width = std::max(width, strip.width);
    height += strip.height;
  }
  RgbImage image(width, height);
  int top = 0;
  for (const RgbImage& strip : strips) {
    Paste(strip, 0, top, &image);
    top += strip.height;
  }
  WritePng(path, image);
}

}  // namespace dp_bench::media
