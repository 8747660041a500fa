// See film_grid.h.
#include "media/film_grid.h"

#include <algorithm>
#include <memory>

#include "dp_bench/error.h"
#include "media/drawing.h"
#include "media/video_encoder.h"
#include "media/video_reader.h"

namespace dp_bench {
namespace {

constexpr int kLine = 3;  // [px], around each tile
constexpr Colour kCaptionBar = {24, 24, 24};

// One film and the picture that it shows now.
class Tile {
 public:
  explicit Tile(const GridFilm& film)
      : film_(film), reader_(film.path), frame_(reader_.width(), reader_.height()) {
    Advance();
  }

  int width() const { return frame_.width; }
  int height() const { return frame_.height; }
  double fps() const { return reader_.fps(); }
  bool has_ended() const { return has_ended_; }

  void Advance() {
    if (has_ended_ || n_shown_++ % film_.n_repeats != 0) return;
    has_ended_ = !reader_.Read(&frame_);
  }

  void Draw(int left, int top, int width, int height, RgbImage* grid) const {
    Fill(left, top, width + 2 * kLine, height + 2 * kLine, film_.frame_colour, grid);
    Fill(left + kLine, top + kLine, width, height, {0, 0, 0}, grid);
    for (int y = 0; y < frame_.height; ++y) {
      std::copy_n(frame_.pixels.begin() + 3 * y * frame_.width, 3 * frame_.width,
                  grid->pixels.begin() + 3 * ((top + kLine + y) * grid->width + left + kLine));
    }
    DrawCaption(film_.caption, left + kLine, top + kLine, std::max(1, height / 96), kCaptionBar,
                grid);
  }

 private:
  const GridFilm& film_;
  VideoReader reader_;
  RgbImage frame_;
  std::int64_t n_shown_ = 0;
  bool has_ended_ = false;
};

}  // namespace

void WriteFilmGrid(const std::vector<GridFilm>& films, const std::filesystem::path& path,
                   const FilmGridOptions& options) {
  if (films.empty()) throw Error(ErrorCode::kUsage, "a grid of films needs at least one");
  std::vector<std::unique_ptr<Tile>> tiles;
  for (const GridFilm& film : films) tiles.push_back(std::make_unique<Tile>(film));
  int width = 0;
  int height = 0;
  for (const auto& tile : tiles) {
    width = std::max(width, tile->width());
    height = std::max(height, tile->height());
  }
  const int n_columns = std::min(options.n_columns, static_cast<int>(tiles.size()));
  const int n_rows = (static_cast<int>(tiles.size()) + n_columns - 1) / n_columns;
  RgbImage grid(n_columns * (width + 2 * kLine), n_rows * (height + 2 * kLine));
  VideoEncoder encoder(path, {.width = grid.width,
                              .height = grid.height,
                              .fps = tiles.front()->fps(),
                              .crf = options.crf});
  while (!std::ranges::all_of(tiles, &Tile::has_ended,
                              [](const auto& tile) -> const Tile& { return *tile; })) {
    for (int i = 0; i < static_cast<int>(tiles.size()); ++i) {
      tiles[static_cast<std::size_t>(i)]->Draw(i % n_columns * (width + 2 * kLine),
                                               i / n_columns * (height + 2 * kLine), width, height,
                                               &grid);
    }
    encoder.Write(grid);
    for (const auto& tile : tiles) tile->Advance();
  }
  encoder.Finish();
}

}  // namespace dp_bench
