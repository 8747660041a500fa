// dp_bench video: puts the videos of a run into one video or GIF.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/light/verbs.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/output_file.h"
#include "core/temporary_folder.h"
#include "media/video_grid.h"
#include "run/result_files.h"
#include "run/run_checkpoint.h"
#include "run/run_folder.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVideoDetails =
    R"(Shows the videos of a run side by side, with a green frame for success, a red one for
failure, and seed and score in the corner. env_runner.n_videos sets how many videos a run records;
`dp_bench replay` records any other. A .png shows some frames of each video in a row.

Examples:
  dp_bench video runs/mine --output grid.mp4
  dp_bench video runs/mine --output failures.gif --only failures --slow 3
  dp_bench video runs/mine --output strips.png --columns 6 --episodes 3)";

constexpr std::size_t kMaxVideoBytes = std::size_t{4} << 30;

struct VideoVerbOptions {
  fs::path run;
  fs::path output;
  std::string only = "all";
  int n_episodes = 16;
  int slow = 1;
  media::VideoGridOptions grid;
};

std::vector<media::GridVideo> ChooseVideos(const VideoVerbOptions& options) {
  const run::RunFolder run = run::ReadRunFolder(run::FindRunOf(options.run));
  run::RequireFinished(run);
  std::vector<media::GridVideo> videos;
  for (const run::EpisodeRecord& record : run.episodes) {
    const std::optional<fs::path> path = run.VideoOf(record);
    const bool is_wanted = options.only == "all" || record.success == (options.only == "successes");
    if (!path || !is_wanted || std::ssize(videos) == options.n_episodes) continue;
    media::GridVideo video = {.path = *path,
                              .caption = fmt::format("{} {:.2f}", record.seed, record.score)};
    video.frame_colour = {198, 40, 40};
    if (record.success) video.frame_colour = {21, 128, 61};
    if (!record.success) video.n_repeats = options.slow;
    videos.push_back(video);
  }
  if (videos.empty()) {
    throw DataError(
        "'{}' has no video of this kind ({}); evaluate with a larger env_runner.n_videos",
        options.run.string(), options.only);
  }
  return videos;
}

int Video(const VideoVerbOptions& options) {
  const fs::path extension = options.output.extension();
  const bool is_strip = extension == ".png";
  run::RequireResultFiles({{"--output", options.output,
                            is_strip              ? run::kPngFile
                            : extension == ".gif" ? run::kGifFile
                                                  : run::kMp4File}});
  const std::vector<media::GridVideo> videos = ChooseVideos(options);
  const auto write = is_strip ? media::WriteVideoStrips : media::WriteVideoGrid;
  const core::OutputPlace place = core::FindOutput(options.output);
  if (place.is_stream || place.path.extension() != extension) {
    // a video cannot be written from its beginning to its end, and its name says its format
    const core::TemporaryFolder scratch;
    const fs::path video = scratch.path() / options.output.filename();
    write(videos, video, options.grid);
    core::WriteOutput(options.output, core::ReadFile(video, kMaxVideoBytes));
  } else {
    core::RemoveLeftOvers(place.path);
    write(videos, place.path, options.grid);
  }
  core::PrintResult("{}: {} episodes\n", options.output.string(), videos.size());
  return 0;
}

}  // namespace

Verb AddVideo(CLI::App* app) {
  auto options = std::make_shared<VideoVerbOptions>();
  app->footer(kVideoDetails);
  AddFolder(app, "run", &options->run, "Run folder, or one of its checkpoints")->required();
  app->add_option("--output", options->output, "Video (.mp4) or image (.gif, .png) to write")
      ->required();
  AddChoice(app, "--only", &options->only, {"all", "successes", "failures"},
            "all, successes or failures");
  AddNumber(app, "--episodes", &options->n_episodes, 1, 100, "Maximum number of videos");
  AddNumber(app, "--columns", &options->grid.n_columns, 1, 100,
            "Videos per row; for a .png, frames of each video");
  AddNumber(app, "--slow", &options->slow, 1, 20,
            "Slow motion of failures: each frame this many times");
  return [options] { return Video(*options); };
}

}  // namespace dp_bench::app
