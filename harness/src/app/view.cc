// dp_bench view: shows an env in a window, driven by a checkpoint, an expert or a person.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "app/verbs.h"
#include "core/errors.h"
#include "planner/correction_file.h"
#include "planner/policy_planner.h"
#include "run/checkpoint.h"
#include "run/result_files.h"
#include "run/run_files.h"
#include "task/experiment.h"
#include "task/key_check.h"
#include "view/action_source.h"
#include "view/demonstration_recorder.h"
#include "view/window/window.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr int kLongerSide = 640;  // of the image without --size [px]

constexpr const char* kViewExamples =
    R"(Examples:
  dp_bench view --env pusht --human --record data/mine.zarr
  dp_bench view --env kuavo_dualarm --expert
  dp_bench view --checkpoint models/pusht_unet_hybrid --seed 100000
  dp_bench view --policy remote --env pusht policy.params.url=ws://127.0.0.1:8000)";

struct ViewVerbOptions {
  task::ExperimentOptions experiment;
  fs::path checkpoint;
  std::string weights = "ema";
  bool expert = false;
  bool human = false;
  fs::path record;
  std::optional<std::uint64_t> seed;
  std::vector<int> size;
  double speed = 1.0;
  int steps = 0;
  fs::path screenshot;
};

void RequireOneSource(const ViewVerbOptions& options) {
  const int n_sources = (options.checkpoint.empty() ? 0 : 1) +
                        (options.experiment.policy.empty() ? 0 : 1) + (options.expert ? 1 : 0) +
                        (options.human ? 1 : 0);
  if (n_sources == 1) return;
  throw UsageError("{}: choose one of --checkpoint, --policy, --expert and --human",
                   n_sources == 0 ? "nothing to view" : "that is more than one source");
}

// The image has the aspect ratio of the videos; the first seed is the first of an evaluation.
view::PlayerThreadOptions MakeViewer(const ViewVerbOptions& options, const Config& config) {
  const auto runner = control::EnvRunnerConfig::FromConfig(config.Sub("env_runner"));
  view::PlayerThreadOptions viewer;
  viewer.player = {.first_seed = options.seed.value_or(runner.test_start_seed),
                   .speed = options.speed,
                   .max_steps = runner.max_steps,
                   .n_steps = options.steps};
  if (!options.size.empty()) {
    viewer.width = options.size[0];
    viewer.height = options.size[1];
    return viewer;
  }
  const double scale = kLongerSide / std::max<double>(runner.video_width, runner.video_height);
  viewer.width = std::max(1, static_cast<int>(scale * runner.video_width));
  viewer.height = std::max(1, static_cast<int>(scale * runner.video_height));
  return viewer;
}

// The policy of a checkpoint, or one without weights.
int ViewPolicy(ViewVerbOptions options) {
  const bool has_weights = !options.checkpoint.empty();
  if (has_weights) {
    ChooseCheckpoint(&options.checkpoint);
    options.experiment.config = options.checkpoint / run::kConfigFile;
    options.experiment.takes_env_only = !options.experiment.env.empty();
  }
  const task::Experiment experiment(options.experiment);
  const std::unique_ptr<Policy> policy = experiment.LoadPolicy(options.checkpoint, options.weights);

  // the micro-batch of the evaluation, which affects the bits of an action
  const control::EnvRunnerConfig runner = experiment.runner();
  const control::ChunkingConfig& chunking = runner.chunking;
  if (chunking.latency.is_random() || runner.realtime != 0.0) {
    throw UsageError(
        "view shows plans that take env_runner.chunking.delay steps; found chunking.latency or "
        "realtime. Set env_runner.realtime=0 env_runner.chunking.latency.distribution=none, and "
        "the delay");
  }
  const std::unique_ptr<control::ChunkPlanner> planner =
      planner::MakePlanner(*policy, experiment.device(), runner.micro_batch, chunking);
  const control::LoopOptions loop = {
      .latency_steps = chunking.delay,
      .chunking = chunking,
      .correction = planner::ReadCorrection(chunking, experiment.spec())};
  view::PlayerThreadOptions viewer = MakeViewer(options, experiment.config());
  task::RejectUnknownKeys(experiment, {.makes_policy = true, .is_of_checkpoint = has_weights});
  viewer.make_stage = [&]() -> view::PlayedStage {
    std::unique_ptr<Env> env = experiment.CreateEnv();
    auto source = std::make_unique<view::PlannerSource>(
        *env, *planner, experiment.spec().shape_meta, experiment.spec().horizons, loop);
    return {.env = std::move(env), .source = std::move(source)};
  };
  view::RunViewer(std::move(viewer), options.screenshot);
  return 0;
}

int ViewExpertOrHuman(const ViewVerbOptions& options) {
  const task::Task task(options.experiment);
  view::PlayerThreadOptions viewer = MakeViewer(options, task.config());
  task::RejectUnknownKeys(task, {});
  viewer.make_stage = [&]() -> view::PlayedStage {
    std::unique_ptr<Env> env = task.CreateEnv();
    if (options.expert) {
      auto source = std::make_unique<view::ExpertSource>(*env);
      return {.env = std::move(env), .source = std::move(source)};
    }
    auto source = std::make_unique<view::PointerSource>(*env);
    std::unique_ptr<view::DemonstrationRecorder> demonstrations;
    if (!options.record.empty()) {
      demonstrations = std::make_unique<view::DemonstrationRecorder>(
          *env, options.record,
          view::DemonstrationOrigin(task.config().Sub("env").ToJson(), task.EnvPlugin().version));
    }
    return {.env = std::move(env),
            .source = std::move(source),
            .demonstrations = std::move(demonstrations)};
  };
  view::RunViewer(std::move(viewer), options.screenshot);
  return 0;
}

int View(const ViewVerbOptions& options) {
  run::RequireResultFiles({{"--screenshot", options.screenshot, run::kPngFile}});
  RequireOneSource(options);
  if (options.expert || options.human) return ViewExpertOrHuman(options);
  return ViewPolicy(options);
}

}  // namespace

Verb AddView(CLI::App* app) {
  auto options = std::make_shared<ViewVerbOptions>();
  app->footer(kViewExamples);
  AddTaskOptions(app, &options->experiment);
  app->add_option("--device", options->experiment.device, "Device of the policy (training.device)");
  CLI::Option* checkpoint = AddFolder(app, "--checkpoint", &options->checkpoint,
                                      "Watch a policy: checkpoint or run folder")
                                ->excludes("--config");
  AddWeightsOption(app, &options->weights)->needs(checkpoint);
  app->add_option("--policy", options->experiment.policy,
                  "Watch a policy without weights, such as remote");
  app->add_flag("--expert", options->expert, "Watch the env's expert");
  CLI::Option* human = app->add_flag("--human", options->human, "Move the env by dragging");
  app->add_option("--record", options->record,
                  "Dataset to which successful episodes of --human are appended")
      ->needs(human);
  app->add_option_function<std::string>(
      "--seed",
      [options](const std::string& text) { options->seed = ParseSeeds("--seed", {text}).front(); },
      "First seed (default: env_runner.test_start_seed)");
  app->add_option("--size", options->size, "Width and height of the image [px]")
      ->expected(2)
      ->check(CLI::Range(1, 4096));
  AddNumber(app, "--speed", &options->speed, view::kMinSpeed, view::kMaxSpeed,
            "Relative to the env's own speed");
  app->add_option("--steps", options->steps, "Close after this many steps, or one episode")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--screenshot", options->screenshot, "PNG of the window when it closes");
  return [options] { return View(*options); };
}

}  // namespace dp_bench::app
