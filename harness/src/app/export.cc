// dp_bench export: writes a small checkpoint for inference, with only the evaluated weights.
#include <memory>
#include <string>

#include "app/verbs.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "dp_bench/error.h"
#include "run/checkpoint.h"
#include "run/run_contents.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExportExamples =
    R"(Examples:
  dp_bench export --checkpoint runs/mine/checkpoints/latest --output models/mine)";

struct ExportVerbOptions {
  fs::path checkpoint;
  fs::path output;
};

// Called before anything is read.
void RequireFreeFolder(const fs::path& output) {
  run::RequireNoRun(output);
  if (!fs::exists(output) || (fs::is_directory(output) && fs::is_empty(output))) return;
  throw Error(ErrorCode::kUsage, fmt::format("'{}' exists and is not an empty folder; give another "
                                             "--output",
                                             output.string()));
}

int Export(ExportVerbOptions options) {
  RequireFreeFolder(options.output);
  ChooseCheckpoint(&options.checkpoint);
  const run::Checkpoint checkpoint = run::Checkpoint::Open(options.checkpoint);
  const std::string_view weights = checkpoint.Has(run::kEmaFile) ? run::kEmaFile : run::kModelFile;
  run::CheckpointContents contents = {.config = checkpoint.config(), .state = checkpoint.state()};
  for (const std::string_view file : {weights, run::kNormalizerFile}) {
    contents.tensors[std::string(file)] = checkpoint.ReadTensors(file);
  }
  core::AtomicFolder folder(options.output);
  run::WriteCheckpointFiles(folder.temporary(), contents);
  folder.Commit();
  core::PrintResult("{}: {} and the normalizer\n", options.output.string(), weights);
  return 0;
}

}  // namespace

Verb AddExport(CLI::App* app) {
  auto options = std::make_shared<ExportVerbOptions>();
  app->footer(kExportExamples);
  app->add_option("--checkpoint", options->checkpoint,
                  "Checkpoint folder, or run folder of a training")
      ->required()
      ->check(CLI::ExistingDirectory);
  app->add_option("--output", options->output, "Folder to write; must not exist or must be empty")
      ->required();
  return [options] { return Export(*options); };
}

}  // namespace dp_bench::app
