// dp_bench import: makes a checkpoint of a LeRobot diffusion policy.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "app/verbs.h"
#include "core/console.h"
#include "dp_bench/error.h"
#include "task/lerobot_import.h"

namespace dp_bench::app {
namespace {

// Users of diffusion_policy come with a file.
void RequireFolder(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) return;
  throw Error(ErrorCode::kUsage,
              fmt::format("'{0}' is a file; expected the folder of a LeRobot policy. Convert a "
                          "checkpoint of diffusion_policy first: python -m "
                          "dp_bench.convert_diffusion_policy '{0}' converted",
                          path.string()));
}

constexpr const char* kImportExamples =
    R"(Examples:
  dp_bench import lerobot/diffusion_pusht --env pusht --obs image --output models/theirs
  dp_bench import pretrained_model --output models/theirs      (no task: each of its inputs is a key)
  dp_bench import pretrained_model --env kuavo_dualarm --map observation.environment_state=object
  dp_bench eval --checkpoint models/theirs)";

}  // namespace

Verb AddImport(CLI::App* app) {
  const auto options = std::make_shared<task::LerobotImport>();
  app->footer(kImportExamples);
  app->add_option("folder", options->folder,
                  "Folder with the config.json and model.safetensors of a LeRobot diffusion policy")
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
    core::PrintResult("{}: a checkpoint of unet_hybrid\n", options->output.string());
    PrintBindings(bindings);
    return 0;
  };
}

}  // namespace dp_bench::app
