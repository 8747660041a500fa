// dp_bench dataset: work on data sets as files.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "app/verbs.h"
#include "core/console.h"
#include "core/exit_code.h"
#include "core/progress.h"
#include "core/stop_signal.h"
#include "experiment/dataset_conversion.h"
#include "plugin/catalogue.h"

namespace dp_bench::app {
namespace {

constexpr const char* kConvertDetails =
    R"(Formats: lerobot (version 3.0, or 2.1 with --param version=v2.1), zarr (what `dp_bench collect` writes),
and those of other writer plugins. Numbers and pictures arrive bit for bit; LeRobot data sets hold the
pictures as PNG files. After an interruption, the same command continues.

Examples:
  dp_bench dataset convert data/pusht/pusht_cchi_v7_replay.zarr data/pusht_lerobot --format lerobot
  dp_bench dataset convert path/to/lerobot_dataset data/mine.zarr --format zarr
  dp_bench dataset convert data/a.zarr data/a_lerobot --format lerobot --map observation.state=agent_pos,block_pose)";

struct DatasetVerbOptions {
  experiment::DatasetConversion conversion;
  std::vector<std::filesystem::path> plugin_dirs;
};

}  // namespace

int ConvertWithProgress(experiment::DatasetConversion conversion,
                        plugin::PluginCatalogue& catalogue) {
  conversion.stop = &core::CatchStopSignals();
  core::Progress progress(core::Progress::StandardError(), 0);
  const experiment::ConversionReport report = experiment::ConvertDataset(
      conversion, catalogue, [&progress](const experiment::ConversionProgress& state) {
        progress.Update({.done = state.n_episodes, .total = state.n_wanted, .unit = "episodes"},
                        "convert", fmt::format("{} steps", state.n_steps));
      });
  progress.Pause();
  if (report.is_interrupted) {
    core::PrintStatus("interrupted after {} episodes; the same command continues\n",
                      report.n_episodes);
    return core::kExitInterrupted;
  }
  core::PrintResult("{}: {} episodes, {} steps\n", conversion.output.string(), report.n_episodes,
                    report.n_steps);
  for (const std::string& feature : report.features) core::PrintResult("  {}\n", feature);
  return 0;
}

Verb AddDataset(CLI::App* app) {
  auto options = std::make_shared<DatasetVerbOptions>();
  experiment::DatasetConversion& conversion = options->conversion;
  app->require_subcommand(1, 1);
  CLI::App* convert = app->add_subcommand("convert", "Copy a data set into another format");
  convert->footer(kConvertDetails);
  convert
      ->add_option("source", conversion.source,
                   "A data set of dp_bench, diffusion_policy or LeRobot")
      ->required();
  convert->add_option("output", conversion.output, "The folder to write, which must not exist")
      ->required();
  convert->add_option("--format", conversion.format, "lerobot, zarr, or a writer plugin")
      ->required();
  convert->add_option("--task-text", conversion.task,
                      "What the robot is told to do, if the source does not say (default: the "
                      "name of the source)");
  AddMapOption(convert, &conversion.map);
  convert
      ->add_option("--param", conversion.params,
                   "A param of the writer, <key>=<value>; may be repeated")
      ->allow_extra_args(false);
  convert
      ->add_option("--plugin-dir", options->plugin_dirs, "Folder to search first; may be repeated")
      ->allow_extra_args(false);
  return [options] {
    plugin::PluginCatalogue catalogue(
        plugin::PluginCatalogue::DefaultSearchPath(options->plugin_dirs));
    return ConvertWithProgress(options->conversion, catalogue);
  };
}

}  // namespace dp_bench::app
