// dp_bench dataset: copies datasets into other formats, and takes them apart or puts them
// together.
#include "dp_bench/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/verbs.h"
#include "config/dataset_format.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/parse_number.h"
#include "core/progress.h"
#include "core/split.h"
#include "data/key_check.h"
#include "data/reader/keyed_dataset.h"
#include "data/split.h"
#include "inspect/data_inspection.h"
#include "plugin/catalogue.h"
#include "task/dataset_conversion.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConvertDetails =
    R"(Formats: lerobot (version 3.0, or 2.1 with --param version=v2.1), zarr (what `dp_bench collect` writes), hdf5,
and those of other writer plugins. Numbers arrive as float32, bit for bit; float64 is rounded to it. In LeRobot
datasets, columns and videos of LeRobot sources are copied as they are, and other images are PNG; --param codec=av1
(h264, hevc) encodes them, with loss. The notes at the end say what was left out.
After an interruption, the same command continues.

Examples:
  dp_bench dataset convert data/pusht/pusht_cchi_v7_replay.zarr data/pusht_lerobot --format lerobot --fps 10
  dp_bench dataset convert path/to/lerobot_dataset data/mine.zarr --format zarr
  dp_bench dataset convert data/a.zarr data/a_lerobot --format lerobot --map observation.state=agent_pos,block_pose)";

struct DatasetVerbOptions {
  task::DatasetConversion conversion;
  fs::path source;
  fs::path second_output;
  double val_ratio = 0.1;
  std::uint64_t seed = 42;
  std::string episodes;
  bool reads_all_images = false;  // check
  std::vector<fs::path> plugin_dirs;

  std::unique_ptr<Dataset> OpenSource(plugin::PluginCatalogue& catalogue) const {
    return task::OpenDataset(source, conversion.reading, catalogue);
  }
};

// --fps, which only some verbs need.
void AddRateOption(CLI::App* app, DatasetVerbOptions* options) {
  app->add_option("--fps", options->conversion.reading.fps,
                  "Steps per second of a dataset that does not say them")
      ->check(CLI::Range(reader::kMinFps, reader::kMaxFps))
      ->check(&RefuseNan);
}

// --format, and what belongs to the writer.
void AddWriterOptions(CLI::App* app, DatasetVerbOptions* options) {
  task::DatasetConversion& conversion = options->conversion;
  AddRateOption(app, options);
  app->add_option("--format", conversion.format,
                  "lerobot, zarr, or a writer plugin (default: that of the source)");
  app->add_option("--task-text", conversion.task,
                  "What the robot is told to do, if the source does not say (default: the name of "
                  "the source)");
  AddMapOption(app, &conversion.map);
  app->add_option("--param", conversion.params,
                  "A param of the writer, <key>=<value>; may be repeated")
      ->allow_extra_args(false);
}

void AddSourceAndOutput(CLI::App* app, DatasetVerbOptions* options) {
  app->add_option("source", options->source, "A dataset of dp_bench, diffusion_policy or LeRobot")
      ->required();
  app->add_option("output", options->conversion.output, "The folder to write, which must not exist")
      ->required();
}

int Copy(std::vector<task::DatasetConversion> conversions, const DatasetVerbOptions& options) {
  plugin::PluginCatalogue catalogue = OpenCatalogue(options.plugin_dirs);
  for (task::DatasetConversion& conversion : conversions) {
    if (!conversion.format.empty()) continue;
    conversion.format = config::FormatOfReader(catalogue.ReaderOf(conversion.sources[0]));
  }
  return ConvertWithProgress(conversions, catalogue);
}

std::int64_t ReadIndex(const std::string& text, const std::string& all) {
  const auto value = core::ParseNumber<std::int64_t>(text);
  if (value && *value >= 0) return *value;
  throw UsageError("--episodes {}: expected numbers and ranges, such as 0-99,120", all);
}

// "0-2,7" is 0, 1, 2, 7.
std::vector<std::int64_t> ReadEpisodes(const std::string& text) {
  std::vector<std::int64_t> episodes;
  for (const std::string& part : core::Split(text, ',')) {
    const std::size_t dash = part.find('-');
    const std::int64_t first = ReadIndex(part.substr(0, dash), text);
    const std::int64_t last =
        dash == std::string::npos ? first : ReadIndex(part.substr(dash + 1), text);
    constexpr std::int64_t kMaxRange = 10'000'000;
    if (last < first || last - first > kMaxRange) ReadIndex("", text);
    for (std::int64_t episode = first; episode <= last; ++episode) episodes.push_back(episode);
  }
  return episodes;
}

// The same episodes as a training with this dataset.val_ratio and seed.
int Split(const DatasetVerbOptions& options) {
  RequireFreeFolder(options.conversion.output);
  RequireFreeFolder(options.second_output);
  const auto place = [](const fs::path& path) {
    return fs::weakly_canonical(fs::absolute(path) / "");
  };
  if (place(options.conversion.output) == place(options.second_output)) {
    throw UsageError("expected two folders for the two datasets, found '{}' twice",
                     options.second_output.string());
  }
  plugin::PluginCatalogue catalogue = OpenCatalogue(options.plugin_dirs);
  const auto n = std::ssize(options.OpenSource(catalogue)->episode_ends());
  const std::vector<bool> is_val = data::ValidationMask(n, options.val_ratio, options.seed);
  task::DatasetConversion train = options.conversion;
  train.sources = {options.source};
  task::DatasetConversion val = train;
  val.output = options.second_output;
  train.episodes.emplace();
  val.episodes.emplace();
  for (std::int64_t i = 0; i < n; ++i) {
    (is_val[static_cast<std::size_t>(i)] ? val : train).episodes->push_back(i);
  }
  if (val.episodes->empty()) {
    throw UsageError("--val-ratio {} leaves no episode of {} for the second dataset",
                     options.val_ratio, n);
  }
  return Copy({train, val}, options);
}

int Check(const DatasetVerbOptions& options) {
  plugin::PluginCatalogue catalogue = OpenCatalogue(options.plugin_dirs);
  const auto dataset = options.OpenSource(catalogue);
  const int n_images =
      options.reads_all_images ? std::numeric_limits<int>::max() : inspect::kSampledImages;
  const inspect::DataInspection inspection =
      inspect::InspectData(*dataset, options.source.string(), n_images);
  core::PrintResult("{}", diagnose::ToText(inspection.faults));
  return diagnose::HasProblems(inspection.faults) ? 1 : 0;
}

void PrintKey(const Dataset& dataset, int index) {
  const KeySpec& key = dataset.spec().keys[static_cast<std::size_t>(index)];
  core::PrintResult("  {:<16} {:<8} {:<8} {}", key.name, Name(key.type), Name(key.dtype),
                    ToString(key.shape));
  if (dataset.has_features()) {
    const std::vector<std::string> names = dataset.ChannelNames(index);
    core::PrintResult("  {}{}{}", dataset.FeatureName(index), names.empty() ? "" : ": ",
                      fmt::join(names, ", "));
  }
  core::PrintResult("\n");
}

int Info(const DatasetVerbOptions& options) {
  plugin::PluginCatalogue catalogue = OpenCatalogue(options.plugin_dirs);
  const auto dataset = options.OpenSource(catalogue);
  const std::span<const std::int64_t> ends = dataset->episode_ends();
  const double fps = task::RateOf(*dataset, options.source, options.conversion.reading);
  core::PrintResult(
      "{}: {}, {} episodes, {} steps, {}{}\n", options.source.string(),
      config::FormatOfReader(catalogue.ReaderOf(options.source)), ends.size(), ends.back(),
      data::RateText(fps),
      fps > 0.0 ? ", " + core::FormatDuration(static_cast<double>(ends.back()) / fps) : "");
  for (int i = 0; i < static_cast<int>(dataset->spec().keys.size()); ++i) {
    PrintKey(*dataset, i);
  }
  std::map<std::string, int> tasks;
  for (std::int64_t i = 0; i < std::ssize(ends); ++i) ++tasks[dataset->Task(i)];
  const bool has_tasks = dataset->has_features() || tasks.size() > 1 || !tasks.contains("");
  if (!has_tasks) return 0;
  for (const auto& [task, n] : tasks) core::PrintResult("  \"{}\": {} episodes\n", task, n);
  return 0;
}

using Subcommand = std::function<int(const DatasetVerbOptions&)>;

void AddMerge(CLI::App* app, DatasetVerbOptions* options) {
  app->footer(
      "The sources need the same keys and rate. Their episodes follow one another.\n\n"
      "Example:\n"
      "  dp_bench dataset merge data/monday.zarr data/tuesday.zarr --output data/both.zarr");
  app->add_option("sources", options->conversion.sources, "Two or more datasets")
      ->required()
      ->expected(2, -1);
  app->add_option("--output", options->conversion.output,
                  "The folder to write, which must not exist")
      ->required();
  AddWriterOptions(app, options);
}

void AddSplit(CLI::App* app, DatasetVerbOptions* options) {
  app->footer(
      "Chooses the episodes that a training with the same val_ratio and seed would choose.\n\n"
      "Example:\n"
      "  dp_bench dataset split data/mine.zarr data/train.zarr data/val.zarr --val-ratio 0.1");
  AddSourceAndOutput(app, options);
  app->add_option("second", options->second_output, "The folder for the validation episodes")
      ->required();
  AddNumber(app, "--val-ratio", &options->val_ratio, 0.0, 1.0,
            "Part of the episodes in the second dataset");
  app->add_option_function<std::string>(
      "--seed",
      [options](const std::string& text) { options->seed = ParseSeeds("--seed", {text}).front(); },
      "Chooses the episodes (default: 42)");
  AddWriterOptions(app, options);
}

void AddTrim(CLI::App* app, DatasetVerbOptions* options) {
  app->footer(
      "Example:\n"
      "  dp_bench dataset trim data/mine.zarr data/good.zarr --episodes 0-99,120 --drop-first 5");
  AddSourceAndOutput(app, options);
  app->add_option("--episodes", options->episodes,
                  "The episodes to keep, such as 0-99,120 (default: all)");
  app->add_option("--drop-first", options->conversion.drop_first,
                  "Steps to leave out at the beginning of every episode")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--drop-last", options->conversion.drop_last,
                  "Steps to leave out at the end of every episode")
      ->check(CLI::NonNegativeNumber);
  AddWriterOptions(app, options);
}

int CopyOne(const DatasetVerbOptions& options) {
  task::DatasetConversion conversion = options.conversion;
  conversion.sources = {options.source};
  if (!options.episodes.empty()) conversion.episodes = ReadEpisodes(options.episodes);
  return Copy({conversion}, options);
}

}  // namespace

int ConvertWithProgress(const std::vector<task::DatasetConversion>& conversions,
                        plugin::PluginCatalogue& catalogue) {
  const task::ConversionReport report = task::ConvertShowingProgress(conversions, catalogue);
  for (std::size_t i = 0; i < conversions.size(); ++i) {
    const task::ConvertedDataset& output = report.outputs[i];
    const std::string path = conversions[i].output.string();
    if (report.is_interrupted) {
      core::PrintStatus("{}: interrupted after {} episodes; the same command continues\n", path,
                        output.n_episodes);
      continue;
    }
    core::PrintResult("{}: {} episodes, {} steps\n", path, output.n_episodes, output.n_steps);
    for (const std::string& feature : output.features) core::PrintResult("  {}\n", feature);
    for (const std::string& note : output.notes) core::PrintResult("  {}\n", note);
  }
  return report.is_interrupted ? core::kExitInterrupted : 0;
}

Verb AddDataset(CLI::App* app) {
  auto options = std::make_shared<DatasetVerbOptions>();
  app->footer(
      "Examples:\n"
      "  dp_bench dataset info path/to/lerobot_dataset\n"
      "  dp_bench dataset convert data/mine.zarr data/mine_lerobot --format lerobot\n"
      "  dp_bench dataset merge data/monday.zarr data/tuesday.zarr --output data/both.zarr");
  app->require_subcommand(1, 1);
  std::vector<std::pair<CLI::App*, Subcommand>> commands;
  const auto add = [&](const char* name, const char* description, Subcommand run) {
    CLI::App* const command = app->add_subcommand(name, description);
    AddPluginDirOption(command, &options->plugin_dirs);
    AddReadingOptions(command, &options->conversion.reading);
    commands.emplace_back(command, std::move(run));
    return command;
  };
  const auto add_source = [&](CLI::App* command) {
    command->add_option("source", options->source, "A dataset")->required();
  };
  CLI::App* const info = add("info", "Show keys, episodes and tasks", &Info);
  add_source(info);
  AddRateOption(info, options.get());
  CLI::App* const check = add("check", "Look for faults; exit code 1 if there is one", &Check);
  add_source(check);
  check->add_flag("--all-images", options->reads_all_images,
                  "Decode every image, not only a sample: finds frames that videos lack");
  CLI::App* const convert = add("convert", "Copy a dataset into another format", &CopyOne);
  convert->footer(kConvertDetails);
  AddSourceAndOutput(convert, options.get());
  AddWriterOptions(convert, options.get());
  AddMerge(add("merge", "Put several datasets together",
               [](const DatasetVerbOptions& o) { return Copy({o.conversion}, o); }),
           options.get());
  AddSplit(add("split", "Divide a dataset into training and validation", &Split), options.get());
  AddTrim(add("trim", "Copy some episodes, or parts of them", &CopyOne), options.get());
  return [options, commands] {
    for (const auto& [command, run] : commands) {
      if (command->parsed()) return run(*options);
    }
    return 0;
  };
}

}  // namespace dp_bench::app
