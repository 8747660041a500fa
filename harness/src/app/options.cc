#include "app/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "core/console.h"
#include "core/errors.h"
#include "core/parse_number.h"
#include "core/split.h"
#include "run/run_contents.h"

namespace dp_bench::app {
namespace fs = std::filesystem;

std::vector<std::uint64_t> ParseSeeds(std::string_view option,
                                      const std::vector<std::string>& texts) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
  const std::string text = fmt::format("{}", fmt::join(texts, ","));
  std::vector<std::uint64_t> seeds;
  for (const std::string& part : core::Split(text, ',')) {
    const auto seed = core::ParseNumber<std::uint64_t>(part);
    if (!seed || *seed > kLargest) {
      throw UsageError(
          "{}: expected integers from 0 to {}, separated by commas, as in 42,43; found '{}'",
          option, kLargest, text);
    }
    seeds.push_back(*seed);
  }
  return seeds;
}

plugin::PluginCatalogue OpenCatalogue(const std::vector<fs::path>& plugin_dirs) {
  return plugin::PluginCatalogue(plugin::PluginCatalogue::DefaultSearchPath(plugin_dirs));
}

void AddIsolateOption(CLI::App* app, task::ExperimentOptions* options) {
  CLI::Option* isolate = app->add_flag_callback(
      "--isolate", [options] { options->isolate = true; },
      "Each env in a separate process: a crash costs one episode (env_runner.isolate)");
  app->add_flag_callback(
         "--no-isolate", [options] { options->isolate = false; }, "All envs in this process")
      ->excludes(isolate);
}

void AddPluginDirOption(CLI::App* app, std::vector<fs::path>* folders) {
  app->add_option("--plugin-dir", *folders, "Folder to search for plugins first; may be repeated")
      ->allow_extra_args(false);
}

void AddConfigDirOption(CLI::App* app, std::vector<fs::path>* folders) {
  app->add_option("--config-dir", *folders, "Folder with task/ and policy/; may be repeated")
      ->allow_extra_args(false);
}

void AddDeviceOption(CLI::App* app, std::string* device) {
  app->add_option("--device", *device, "cpu, cuda, cuda:1 (training.device)");
}

CLI::Option* AddWeightsOption(CLI::App* app, std::string* weights) {
  return AddChoice(app, "--weights", weights, {"ema", "model"},
                   "Weights of the checkpoint: ema or model");
}

void ChooseCheckpoint(fs::path* path, run::CheckpointOrder order) {
  if (path->empty()) return;
  const run::ChosenCheckpoint chosen = run::FindCheckpoint(*path, order);
  if (!chosen.reason.empty()) {
    core::PrintStatus("checkpoint: {}, {}\n", chosen.folder.string(), chosen.reason);
  }
  *path = chosen.folder;
}

void AddTaskOptions(CLI::App* app, task::ExperimentOptions* options) {
  app->add_option("--env", options->env, "Task: configs/task/<env>.json");
  app->add_option("--obs", options->obs, "Observations: configs/task/<env>_<obs>.json");
  app->add_option("--task", options->task, "Which task, for envs with several (env.params.task)");
  app->add_option("--config", options->config, "Config file, before --policy and --env");
  AddConfigDirOption(app, &options->config_dirs);
  AddPluginDirOption(app, &options->plugin_dirs);
  AddIsolateOption(app, options);
  app->add_option("overrides", options->overrides, "Config values: training.num_epochs=10");
}

void AddExperimentOptions(CLI::App* app, task::ExperimentOptions* options) {
  app->add_option("--policy", options->policy, "Method: configs/policy/<name>.json");
  app->add_option("--dataset", options->dataset,
                  "Path of a zarr, LeRobot or HDF5 dataset, or configs/dataset/<name>.json");
  AddDeviceOption(app, &options->device);
  AddTaskOptions(app, options);
}

void AddPredictionFile(CLI::App* app, std::filesystem::path* file) {
  app->add_option("--json", *file, "Also write what --dry-run predicts to this file")
      ->needs("--dry-run");
}

void AddMapOption(CLI::App* app, std::vector<std::string>* map) {
  app->add_option("--map", *map,
                  "A feature of LeRobot and the keys it consists of: "
                  "observation.environment_state=keypoint. May be repeated")
      ->allow_extra_args(false);
}

void AddReadingOptions(CLI::App* app, task::DatasetReading* reading) {
  app->add_option("--keys", reading->keys,
                  "Only these keys, such as agent_pos,action; or an object in JSON, as "
                  "dataset.params.keys (default: all)");
  app->add_option("--tolerance", reading->tolerance_s,
                  "Of LeRobot datasets: how far times may be from frame / fps, in seconds "
                  "(dataset.params.tolerance_s)");
}

void RequireFreeFolder(const fs::path& output) {
  run::RequireNoRun(output);
  if (!fs::exists(output) || (fs::is_directory(output) && fs::is_empty(output))) return;
  throw UsageError("'{}' exists and is not an empty folder; give another --output",
                   output.string());
}

}  // namespace dp_bench::app
