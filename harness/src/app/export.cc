// dp_bench export: writes a small checkpoint for inference, with only the evaluated weights, a
// policy for LeRobot, or graphs for other programs. dp_bench import: makes a checkpoint of a
// LeRobot policy.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "app/verbs.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "interop/graph_export.h"
#include "interop/lerobot_export.h"
#include "plugin/catalogue.h"
#include "run/checkpoint.h"
#include "run/run_contents.h"
#include "task/lerobot_import.h"
#include "task/task.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExportExamples =
    R"(Examples:
  dp_bench export --checkpoint runs/mine/checkpoints/latest --output models/mine
  dp_bench export --checkpoint runs/mine --dtype float16 --output models/mine_half
  dp_bench export --checkpoint runs/mine --format lerobot --output mine_lerobot
  dp_bench export --checkpoint runs/mine --format onnx --output mine_onnx)";

constexpr const char* kCheckpointFormat = "dp_bench";
constexpr const char* kLerobotFormat = "lerobot";
constexpr const char* kTorchScriptFormat = "torchscript";
constexpr const char* kOnnxFormat = "onnx";

struct ExportVerbOptions {
  fs::path checkpoint;
  fs::path output;
  std::string format = kCheckpointFormat;
  std::string dtype{Name(run::FloatStorage::kFloat32)};
  std::vector<std::string> map;
  std::vector<fs::path> plugin_dirs;
};

run::FloatStorage StorageOf(const ExportVerbOptions& options) {
  const auto* name = std::ranges::find(run::kFloatStorageNames, options.dtype);
  return static_cast<run::FloatStorage>(name - run::kFloatStorageNames.begin());
}

// Only the evaluated weights, without the state of the optimizer.
void ExportCheckpoint(const run::Checkpoint& checkpoint, const ExportVerbOptions& options) {
  const std::string_view weights = checkpoint.Has(run::kEmaFile) ? run::kEmaFile : run::kModelFile;
  run::CheckpointContents contents = {.tensors = {},
                                      .config = checkpoint.config(),
                                      .state = checkpoint.state(),
                                      .weights = StorageOf(options)};
  for (const std::string_view file : {weights, run::kNormalizerFile}) {
    contents.tensors[std::string(file)] = checkpoint.ReadTensors(file);
  }
  core::AtomicFolder folder(options.output);
  run::WriteCheckpointFiles(folder.temporary(), contents);
  folder.Commit();
  core::PrintResult("{}: {} in {} and the normalizer\n", options.output.string(), weights,
                    options.dtype);
}

void ExportForLerobot(const run::Checkpoint& checkpoint, const ExportVerbOptions& options) {
  plugin::PluginCatalogue catalogue = OpenCatalogue(options.plugin_dirs);
  const auto bindings = interop::ExportLerobotPolicy(
      checkpoint, catalogue, {.output = options.output, .map = options.map});
  core::PrintResult("{}: a policy of LeRobot\n", options.output.string());
  PrintBindings(bindings);
}

void ExportAsGraphs(const run::Checkpoint& checkpoint, const ExportVerbOptions& options) {
  plugin::PluginCatalogue catalogue = OpenCatalogue(options.plugin_dirs);
  const auto format = options.format == kOnnxFormat ? interop::GraphFormat::kOnnx
                                                    : interop::GraphFormat::kTorchScript;
  const double difference =
      interop::ExportPolicyGraphs(checkpoint, catalogue, format, options.output);
  core::PrintResult(
      "{}: encoder, denoiser and sampler.json. Plans of the graphs equal those of the "
      "policy to {:.1e} of half the range of the actions\n",
      options.output.string(), difference);
}

int Export(ExportVerbOptions options) {
  RequireFreeFolder(options.output);
  if (!options.map.empty() && options.format != kLerobotFormat) {
    throw UsageError("--map is only for --format lerobot");
  }
  if (StorageOf(options) != run::FloatStorage::kFloat32 && options.format != kCheckpointFormat) {
    throw UsageError("--dtype is only for --format dp_bench");
  }
  ChooseCheckpoint(&options.checkpoint);
  const run::Checkpoint checkpoint = run::Checkpoint::Open(options.checkpoint);
  if (options.format == kCheckpointFormat) ExportCheckpoint(checkpoint, options);
  if (options.format == kLerobotFormat) ExportForLerobot(checkpoint, options);
  if (options.format == kTorchScriptFormat || options.format == kOnnxFormat) {
    ExportAsGraphs(checkpoint, options);
  }
  return 0;
}

// Users of diffusion_policy come with a file.
void RequireFolder(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) return;
  throw UsageError(
      "'{0}' is a file; expected the folder of a LeRobot policy. Convert a "
      "checkpoint of diffusion_policy first: python -m "
      "dp_bench.convert_diffusion_policy '{0}' converted",
      path.string());
}

constexpr const char* kImportExamples =
    R"(Examples:
  dp_bench import lerobot/diffusion_pusht --env pusht --obs image --output models/theirs
  dp_bench import pretrained_model --output models/theirs      (no task: each of its inputs is a key)
  dp_bench import pretrained_model --env kuavo_dualarm --map observation.environment_state=object
  dp_bench eval --checkpoint models/theirs)";

}  // namespace

void PrintBindings(const std::vector<interop::FeatureBinding>& bindings) {
  for (const interop::FeatureBinding& binding : bindings) {
    core::PrintResult("  {}: {}\n", core::Printable(binding.feature.name),
                      core::Printable(fmt::format("{}", fmt::join(binding.keys, ", "))));
  }
}

Verb AddExport(CLI::App* app) {
  auto options = std::make_shared<ExportVerbOptions>();
  app->footer(kExportExamples);
  AddFolder(app, "--checkpoint", &options->checkpoint,
            "Checkpoint folder, or run folder of a training")
      ->required();
  app->add_option("--output", options->output, "Folder to write; must not exist or must be empty")
      ->required();
  AddChoice(app, "--format", &options->format,
            {kCheckpointFormat, kLerobotFormat, kTorchScriptFormat, kOnnxFormat},
            "dp_bench: a checkpoint without the optimizer; lerobot: a folder that LeRobot "
            "(0.4 and later) loads; torchscript, onnx: graphs and sampler.json, for programs "
            "without dp_bench");
  AddChoice(app, "--dtype", &options->dtype,
            {run::kFloatStorageNames.begin(), run::kFloatStorageNames.end()},
            "How --format dp_bench stores the weights: float32, or for half of the bytes float16 "
            "(11 significant bits, up to 65504) or bfloat16 (8 bits, the range of float32). They "
            "are used as float32");
  AddMapOption(app, &options->map);
  AddPluginDirOption(app, &options->plugin_dirs);
  return [options] { return Export(*options); };
}

Verb AddImport(CLI::App* app) {
  const auto options = std::make_shared<task::LerobotImport>();
  app->footer(kImportExamples);
  app->add_option(
         "folder", options->folder,
         "Folder with the config.json and model.safetensors of a LeRobot policy: diffusion or ACT")
      ->required()
      ->check(CLI::ExistingPath);
  app->add_option("--output", options->output,
                  "Checkpoint to write; must not exist or must be empty")
      ->required();
  AddMapOption(app, &options->map);
  AddTaskOptions(app, &options->experiment);
  return [options] {
    RequireFolder(options->folder);
    RequireFreeFolder(options->output);
    const auto bindings = task::ImportLerobotPolicy(*options);
    core::PrintResult("{}: a checkpoint\n", options->output.string());
    PrintBindings(bindings);
    return 0;
  };
}

}  // namespace dp_bench::app
