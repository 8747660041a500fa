// dp_bench film: puts the filmed episodes of a run into one video or GIF. dp_bench replay: runs one
// episode again and films it.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/verbs.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/output_file.h"
#include "core/temporary_folder.h"
#include "dp_bench/error.h"
#include "evaluate/evaluation.h"
#include "media/film_grid.h"
#include "run/result_files.h"
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
    throw Error(ErrorCode::kData,
                fmt::format("'{}' has no film of this kind ({}); evaluate with a larger "
                            "env_runner.n_videos",
                            options.run.string(), options.only));
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

constexpr const char* kReplayDetails =
    R"(Runs the episode again with the run's checkpoint and config, films it at any size and records every
step (traces/, safetensors). Exit code 1: the trace hash differs from the recorded one.

Examples:
  dp_bench replay --run runs/x --episode 17 --size 960 720)";

struct ReplayVerbOptions {
  fs::path run;
  int episode = 0;
  std::vector<int> size;  // [width, height]
  std::string device;     // empty: the run's
  fs::path output;
};

int Replay(const ReplayVerbOptions& options) {
  const run::RunFolder run = run::ReadRunFolder(run::FindRunOf(options.run));
  run::RequireFinished(run);
  const run::EpisodeRecord& recorded = evaluate::EpisodeAt(run, options.episode);
  std::vector<std::string> overrides;
  if (!options.size.empty()) {
    overrides.push_back(
        fmt::format("env_runner.video_size=[{},{}]", options.size[0], options.size[1]));
  }
  if (!options.device.empty()) overrides.push_back("training.device=" + options.device);
  const fs::path output = options.output.empty() ? run.path / run::kReplayFolder : options.output;
  const run::EpisodeRecord record =
      evaluate::RunRecordedEpisode(run, options.episode, overrides, output);

  core::PrintResult("episode {}: {} seed {}, score {:.3f}, {}, {} steps\n", record.episode,
                    record.split, record.seed, record.score,
                    record.success ? "success" : "no success", record.n_steps);
  if (record.failure_reason) core::PrintResult("failed: {}\n", *record.failure_reason);
  core::PrintResult("{}\n", record.video_error.empty() ? (output / record.video).string()
                                                       : "no video: " + record.video_error);
  if (record.trace_hash == recorded.trace_hash) {
    core::PrintResult("trace hash as recorded: {}\n", record.trace_hash);
    return 0;
  }
  core::PrintResult(
      "the episode went differently: trace hash {}, recorded {} (score {:.3f}, {} steps)\n",
      record.trace_hash, recorded.trace_hash, recorded.score, recorded.n_steps);
  return 1;
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

Verb AddReplay(CLI::App* app) {
  auto options = std::make_shared<ReplayVerbOptions>();
  app->footer(kReplayDetails);
  AddFolder(app, "--run", &options->run, "Run folder, or one of its checkpoints")->required();
  app->add_option("--episode", options->episode, "Its index in the seed list, as in episodes.jsonl")
      ->required();
  app->add_option("--size", options->size, "Width and height of the film [px]")->expected(2);
  app->add_option(
      "--device", options->device,
      "Device of the policy (training.device); if it is not the run's device, the hash may differ");
  app->add_option("--output", options->output, "Where film and trace go (default: <run>/replay)");
  return [options] { return Replay(*options); };
}

}  // namespace dp_bench::app
