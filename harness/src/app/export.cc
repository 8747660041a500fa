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
#include "evaluate/verification.h"
#include "interop/graph_export.h"
#include "interop/lerobot_export.h"
#include "plugin/catalogue.h"
#include "run/checkpoint.h"
#include "run/run_contents.h"
#include "run/run_files.h"
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
  dp_bench export --checkpoint runs/mine --format onnx --output mine_onnx
  dp_bench export --checkpoint runs/mine --format onnx --output mine_onnx --verify 2000)";

constexpr const char* kCheckpointFormat = "dp_bench";
constexpr const char* kLerobotFormat = "lerobot";
constexpr const char* kTorchScriptFormat = "torchscript";
constexpr const char* kOnnxFormat = "onnx";
constexpr const char* kOpenVinoBackend = "openvino";  // which runs ONNX graphs

struct ExportVerbOptions {
  fs::path checkpoint;
  fs::path output;
  std::string format = kCheckpointFormat;
  std::string dtype{Name(run::FloatStorage::kFloat32)};
  std::vector<std::string> map;
  std::vector<fs::path> plugin_dirs;
  int n_verified = 0;  // test seeds; 0: no verification
  double margin = evaluate::VerificationOptions().margin;
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

// A program that executes the plans as they are runs another policy than `eval`.
void WarnOfEnsemble(const run::Checkpoint& checkpoint) {
  const auto horizons =
      Horizons::FromConfig(Config::FromJson(checkpoint.config(), checkpoint.folder().string()));
  if (!horizons.temporal_ensemble_coeff) return;
  core::LogWarning(
      "the policy has temporal ensembling, which is not in the graphs: your program must plan at "
      "every step and average what up to {} plans have for it, as eval does with "
      "temporal_ensemble_coeff={}",
      horizons.n_action_steps, *horizons.temporal_ensemble_coeff);
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
  WarnOfEnsemble(checkpoint);
}

// What plans as the export does.
evaluate::CheckpointEvaluationOptions EvaluationOf(const ExportVerbOptions& options) {
  const bool is_checkpoint = options.format == kCheckpointFormat;
  evaluate::CheckpointEvaluationOptions evaluation = {
      .checkpoint = is_checkpoint ? options.output : options.checkpoint,
      .output = fmt::format("{}_verification", options.output.string())};
  std::vector<std::string>& overrides = evaluation.experiment.overrides;
  overrides = {"env_runner.n_train=0", "env_runner.n_videos=0",
               fmt::format("env_runner.n_test={}", options.n_verified)};
  if (!is_checkpoint) {
    overrides.push_back(fmt::format("policy.backend={}", options.format == kOnnxFormat
                                                             ? kOpenVinoBackend
                                                             : kTorchScriptFormat));
  }
  evaluation.experiment.plugin_dirs = options.plugin_dirs;
  return evaluation;
}

// Rolls out the exported policy and the checkpoint on the same seeds. The export keeps the verdict.
int Verify(const ExportVerbOptions& options) {
  const evaluate::CheckpointEvaluationOptions evaluation = EvaluationOf(options);
  const int exit_code = evaluate::EvaluateVerified(
      evaluation, {.reference = options.checkpoint,
                   .margin = options.margin,
                   .more_seeds = "repeat it with a larger --verify and another --output"});
  const fs::path verdict = evaluation.output / run::kVerificationFile;
  if (fs::exists(verdict)) {
    fs::copy_file(verdict, options.output / run::kVerificationFile);
    core::PrintResult("{}: the verdict\n", (options.output / run::kVerificationFile).string());
  }
  return exit_code;
}

void RequireVerifiable(const ExportVerbOptions& options) {
  if (options.format == kLerobotFormat) {
    throw UsageError(
        "--verify: a policy of LeRobot plans with LeRobot's code. Import the export and evaluate "
        "it: dp_bench import {0} --output imported; dp_bench eval --checkpoint imported "
        "--verify-against {1}",
        options.output.string(), options.checkpoint.string());
  }
  for (const char* suffix : {"_verification", "_verification_reference"}) {
    RequireFreeFolder(options.output.string() + suffix);
  }
}

int Export(ExportVerbOptions options) {
  RequireFreeFolder(options.output);
  if (options.n_verified > 0) RequireVerifiable(options);
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
  return options.n_verified > 0 ? Verify(options) : 0;
}

// Users of diffusion_policy come with a file.
void RequireFolder(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) return;
  throw UsageError(
      "'{0}' is a file; expected the folder of a LeRobot policy. Convert a checkpoint of "
      "diffusion_policy first: python -m dp_bench.convert_diffusion_policy '{0}' converted",
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
  CLI::Option* verify = app->add_option(
      "--verify", options->n_verified,
      "Then roll out the export and the checkpoint on up to this many test seeds, until it is "
      "shown that the success rate of the export is not below; the verdict is kept in the export, "
      "the rollouts in OUTPUT_verification and OUTPUT_verification_reference. ONNX graphs run in "
      "OpenVINO. Exits like dp_bench gate");
  verify->check(CLI::Range(1, 1'000'000));
  AddNumber(app, "--margin", &options->margin, 0.001, 0.5,
            "Of --verify: the drop of the success rate that a PASS excludes")
      ->needs(verify);
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
