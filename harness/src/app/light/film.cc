// dp_bench film: puts the filmed episodes of a run into one video or GIF.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/light/verbs.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/output_file.h"
#include "core/temporary_folder.h"
#include "media/film_grid.h"
#include "run/result_files.h"
#include "run/run_checkpoint.h"
#include "run/run_files.h"
#include "run/run_folder.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFilmDetails =
    R"(Shows the filmed episodes of a run side by side, with a green frame for success, a red one for
failure, and seed and score in the corner. env_runner.n_videos sets how many episodes a run films;
`dp_bench replay` films any other. A .png shows some frames of each film in a row.

Examples:
  dp_bench film runs/mine --output grid.mp4
  dp_bench film runs/mine --output failures.gif --only failures --slow 3
  dp_bench film runs/mine --output strips.png --columns 6 --episodes 3)";

constexpr std::size_t kMaxFilmBytes = std::size_t{4} << 30;

struct FilmVerbOptions {
  fs::path run;
  fs::path output;
  std::string only = "all";
  int n_episodes = 16;
  int slow = 1;
  media::FilmGridOptions grid;
};

std::vector<media::GridFilm> ChooseFilms(const FilmVerbOptions& options) {
  const run::RunFolder run = run::ReadRunFolder(run::FindRunOf(options.run));
  run::RequireFinished(run);
  std::vector<media::GridFilm> films;
  for (const run::EpisodeRecord& record : run.episodes) {
    const std::optional<fs::path> path = run.FilmOf(record);
    const bool is_wanted = options.only == "all" || record.success == (options.only == "successes");
    if (!path || !is_wanted || std::ssize(films) == options.n_episodes) continue;
    media::GridFilm film = {.path = *path,
                            .caption = fmt::format("{} {:.2f}", record.seed, record.score)};
    film.frame_colour = {198, 40, 40};
    if (record.success) film.frame_colour = {21, 128, 61};
    if (!record.success) film.n_repeats = options.slow;
    films.push_back(film);
  }
  if (films.empty()) {
    throw DataError(
        "'{}' has no film of this kind ({}); evaluate with a larger "
        "env_runner.n_videos",
        options.run.string(), options.only);
  }
  return films;
}

int Film(const FilmVerbOptions& options) {
  const fs::path extension = options.output.extension();
  const bool is_strip = extension == ".png";
  run::RequireResultFiles({{"--output", options.output,
                            is_strip              ? run::kPngFile
                            : extension == ".gif" ? run::kGifFile
                                                  : run::kMp4File}});
  const std::vector<media::GridFilm> films = ChooseFilms(options);
  const auto write = is_strip ? media::WriteFilmStrips : media::WriteFilmGrid;
  const core::OutputPlace place = core::FindOutput(options.output);
  if (place.is_stream || place.path.extension() != extension) {
    // a video cannot be written from its beginning to its end, and its name says its format
    const core::TemporaryFolder scratch;
    const fs::path film = scratch.path() / options.output.filename();
    write(films, film, options.grid);
    core::WriteOutput(options.output, core::ReadFile(film, kMaxFilmBytes));
  } else {
    core::RemoveLeftOvers(place.path);
    write(films, place.path, options.grid);
  }
  core::PrintResult("{}: {} episodes\n", options.output.string(), films.size());
  return 0;
}

}  // namespace

Verb AddFilm(CLI::App* app) {
  auto options = std::make_shared<FilmVerbOptions>();
  app->footer(kFilmDetails);
  AddFolder(app, "run", &options->run, "Run folder, or one of its checkpoints")->required();
  app->add_option("--output", options->output, "Video (.mp4) or image (.gif, .png) to write")
      ->required();
  AddChoice(app, "--only", &options->only, {"all", "successes", "failures"},
            "all, successes or failures");
  AddNumber(app, "--episodes", &options->n_episodes, 1, 100, "Maximum number of films");
  AddNumber(app, "--columns", &options->grid.n_columns, 1, 100,
            "Films per row; for a .png, frames of each film");
  AddNumber(app, "--slow", &options->slow, 1, 20,
            "Slow motion of failures: each frame this many times");
  return [options] { return Film(*options); };
}

}  // namespace dp_bench::app
