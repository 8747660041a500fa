// dp_bench replay: runs one episode of a finished run again and films it.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/verbs.h"
#include "core/console.h"
#include "evaluate/replay_episode.h"
#include "run/run_files.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

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

Verb AddReplay(CLI::App* app) {
  auto options = std::make_shared<ReplayVerbOptions>();
  app->footer(kReplayDetails);
  app->add_option("--run", options->run, "Run folder, or one of its checkpoints")
      ->required()
      ->check(CLI::ExistingDirectory);
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
