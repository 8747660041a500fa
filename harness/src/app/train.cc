// dp_bench train and dp_bench run: train or resume a policy; run goes on to evaluate, film and
// report.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "app/collection.h"
#include "app/evaluation.h"
#include "app/manifest.h"
#include "app/stop_signal.h"
#include "app/verbs.h"
#include "config/loader.h"
#include "train/train_config.h"
#include "train/workspace.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  ExperimentOptions experiment;
  fs::path output;
  fs::path resume;
};

std::shared_ptr<Options> AddOptions(CLI::App* app) {
  auto options = std::make_shared<Options>();
  AddExperimentOptions(app, &options->experiment);
  CLI::Option* output = app->add_option("--output", options->output,
                                        "Run folder (default: runs/<date>/<time>_<name>)");
  app->add_option("--resume", options->resume, "Run folder to continue, with its own config")
      ->check(CLI::ExistingDirectory)
      ->excludes(output);
  return options;
}

// a resumed run is its folder: the config comes from there
fs::path PrepareRunFolder(Options* options) {
  if (options->resume.empty()) return options->output;
  options->experiment.config = options->resume / "config.json";
  options->experiment.overrides.insert(options->experiment.overrides.begin(),
                                       "training.resume=true");
  return options->resume;
}

// Trains, and with `with_report` evaluates the result and reports it.
int TrainAndReport(Options options, bool with_report) {
  fs::path output = PrepareRunFolder(&options);
  const Experiment experiment(options.experiment);
  const std::atomic<bool>& stop = CatchStopSignals();
  if (!ProvideDataset(experiment, stop)) return kExitInterrupted;
  if (output.empty()) output = NewRunFolder(experiment);
  fs::create_directories(output);
  fmt::print("run folder: {}\n", output.string());

  const std::unique_ptr<Dataset> dataset = experiment.CreateDataset();
  Evaluation rollouts(experiment, output, /*with_videos=*/false);
  Evaluation final_evaluation(experiment, output, /*with_videos=*/true);
  Workspace workspace({.config = experiment.config(),
                       .dataset = *dataset,
                       .create_policy = [&] { return experiment.CreatePolicy(); },
                       .output_dir = output,
                       .stop = &stop});
  const torch::Device device = experiment.device();
  experiment.config().RejectUnread();
  WriteResolvedConfig(experiment.config(), output / "config.json");
  WriteManifest(experiment, output / "manifest.json");

  const TrainReport report =
      workspace.Run([&](Policy& policy, int) { return MetricsOf(rollouts.Run(policy, device)); });
  if (report.end == TrainEnd::kInterrupted) {
    fmt::print("interrupted at step {}; continue with --resume {}\n", report.global_step,
               output.string());
    return kExitInterrupted;
  }
  fmt::print("trained {} steps in {}, {:.0f} samples/s\n", report.global_step,
             FormatDuration(report.seconds), report.samples_per_second);
  if (!with_report) return 0;
  return ReportEvaluation(final_evaluation.Run(workspace.eval_policy(), device), output);
}

}  // namespace

void AddTaskOptions(CLI::App* app, ExperimentOptions* options) {
  app->add_option("--env", options->env, "Task: configs/task/<env>.json");
  app->add_option("--obs", options->obs, "Its observations: configs/task/<env>_<obs>.json");
  app->add_option("--task", options->task, "Which task, for envs with several (env.params.task)");
  app->add_option("--config", options->config, "Config file, before --policy and --env");
  app->add_option("--config-dir", options->config_dirs,
                  "Folder with task/ and policy/; may be repeated")
      ->allow_extra_args(false);
  app->add_option("--plugin-dir", options->plugin_dirs,
                  "Folder to search for plugins first; may be repeated")
      ->allow_extra_args(false);
  app->add_option("overrides", options->overrides, "Config values: training.num_epochs=10");
}

void AddExperimentOptions(CLI::App* app, ExperimentOptions* options) {
  app->add_option("--policy", options->policy, "Method: configs/policy/<name>.json");
  app->add_option("--dataset", options->dataset,
                  "Path of a dataset, or configs/dataset/<name>.json");
  app->add_option("--device", options->device, "cpu, cuda, cuda:1 (training.device)");
  AddTaskOptions(app, options);
}

Verb AddTrain(CLI::App* app) {
  const auto options = AddOptions(app);
  return [options] { return TrainAndReport(*options, /*with_report=*/false); };
}

Verb AddRun(CLI::App* app) {
  const auto options = AddOptions(app);
  return [options] { return TrainAndReport(*options, /*with_report=*/true); };
}

}  // namespace dp_bench
