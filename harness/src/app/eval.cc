// dp_bench eval: roll out a checkpoint.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "app/evaluation.h"
#include "app/manifest.h"
#include "app/verbs.h"
#include "checkpoint/checkpoint.h"
#include "config/loader.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  ExperimentOptions experiment;
  fs::path checkpoint;
  fs::path output;
  std::string weights = "ema";
};

int Evaluate(Options options) {
  const Checkpoint checkpoint = Checkpoint::Open(options.checkpoint);
  options.experiment.config = options.checkpoint / "config.json";
  const Experiment experiment(options.experiment);

  const std::unique_ptr<Policy> policy = experiment.LoadPolicy(checkpoint, options.weights);

  const fs::path output = options.output.empty() ? NewRunFolder(experiment) : options.output;
  fs::create_directories(output);
  fmt::print("run folder: {}\n", output.string());
  Evaluation evaluation(experiment, output, /*with_videos=*/true);
  for (const char* section : {"env", "policy", "env_runner"}) {
    experiment.config().Sub(section).RejectUnread();
  }
  WriteResolvedConfig(experiment.config(), output / "config.json");
  WriteManifest(experiment, output / "manifest.json");
  return ReportEvaluation(evaluation.Run(*policy, experiment.device()), output);
}

}  // namespace

Verb AddEval(CLI::App* app) {
  auto options = std::make_shared<Options>();
  app->add_option("--checkpoint", options->checkpoint, "Checkpoint folder")
      ->required()
      ->check(CLI::ExistingDirectory);
  app->add_option("--weights", options->weights, "Which weights: ema or model")
      ->check(CLI::IsMember({"ema", "model"}))
      ->capture_default_str();
  app->add_option("--task", options->experiment.task, "Another task of its env (env.params.task)");
  app->add_option("--device", options->experiment.device, "cpu, cuda, cuda:1 (training.device)");
  app->add_option("--output", options->output, "Run folder (default: runs/<date>/<time>_<name>)");
  app->add_option("--plugin-dir", options->experiment.plugin_dirs,
                  "Folder to search for plugins first; may be repeated")
      ->allow_extra_args(false);
  app->add_option("overrides", options->experiment.overrides,
                  "Config values: env_runner.n_test=100");
  return [options] { return Evaluate(*options); };
}

}  // namespace dp_bench
