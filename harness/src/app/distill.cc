// dp_bench distill: consistency distillation of a trained diffusion policy, which is a training
// with the config of the teacher and a few keys changed.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/process.h"
#include "app/train_and_report.h"
#include "app/verbs.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/stop_signal.h"
#include "run/checkpoint.h"
#include "run/run_files.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDistillExamples =
    R"(Examples:
  dp_bench distill --checkpoint runs/mine --output runs/mine_fast training.num_epochs=50
  dp_bench train --resume runs/mine_fast
  dp_bench eval --checkpoint runs/mine_fast policy.params.consistency.num_inference_steps=2)";

// A student gets what its teacher observes.
void RequireObservationsOfTeacher(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    for (const char* key : {"policy.params.augmentation", "policy.params.crop_",
                            "policy.params.resize_", "policy.params.obs_encoder", "normalizer"}) {
      if (!text.starts_with(key)) continue;
      throw UsageError("{}: a student observes as its teacher does; leave it out", text);
    }
  }
}

struct DistillVerbOptions {
  task::ExperimentOptions experiment;
  fs::path checkpoint;
  fs::path output;
  std::string weights = "ema";
};

// What differs between the training of the teacher and that of the student.
std::vector<std::string> ChangesOf(const DistillVerbOptions& options) {
  const run::Checkpoint teacher = run::Checkpoint::Open(options.checkpoint);
  const nlohmann::json config = core::ParseJson(
      teacher.config(), (options.checkpoint / run::kConfigFile).string(), ErrorCode::kCheckpoint);
  const bool denoises = core::ValueAt(config, "/policy/params/noise_scheduler").is_object();
  const std::string objective =
      core::TextAt(config, "/policy/params/objective", denoises ? "diffusion" : "");
  if (objective != "diffusion") {
    throw UsageError(
        "--checkpoint: expected a policy with objective diffusion, found {}",
        objective.empty() ? "policy " + core::TextAt(config, "/policy/plugin", "none") : objective);
  }
  const nlohmann::json section = {{"path", fs::absolute(options.checkpoint).string()},
                                  {"weights", options.weights}};
  std::vector<std::string> changes = {"policy.params.objective=consistency",
                                      "policy.params.loss_weighting=none",
                                      "policy.params.loss_weighting_table=null",
                                      "training.resume=false",
                                      "training.use_ema=true",
                                      "training.teacher=" + section.dump(),
                                      "ema.max_value=0.99"};
  // what one evaluation needs at the highest noise level cannot be computed from predicted noise
  if (core::TextAt(config, "/policy/params/noise_scheduler/prediction_type", "epsilon") ==
      "epsilon") {
    changes.emplace_back("policy.params.noise_scheduler.prediction_type=v_prediction");
  }
  return changes;
}

int Distill(DistillVerbOptions options, core::Communicator& ranks) {
  core::CatchStopSignals();  // signals must not end the program while it loads
  if (ranks.is_root()) ChooseCheckpoint(&options.checkpoint);
  options.checkpoint = ranks.FromRoot(options.checkpoint.string());
  std::vector<std::string>& overrides = options.experiment.overrides;
  RequireObservationsOfTeacher(overrides);
  const std::vector<std::string> changes = ChangesOf(options);
  overrides.insert(overrides.begin(), changes.begin(), changes.end());
  options.experiment.config = options.checkpoint / run::kConfigFile;
  return TrainAndReport(options.experiment, {.output = options.output}, ranks);
}

}  // namespace

Verb AddDistill(CLI::App* app) {
  const auto options = std::make_shared<DistillVerbOptions>();
  app->footer(kDistillExamples);
  AddFolder(app, "--checkpoint", &options->checkpoint,
            "Teacher: checkpoint folder, or run folder (its best or else latest checkpoint), "
            "of a policy with objective diffusion and sampler ddim")
      ->required();
  AddWeightsOption(app, &options->weights);
  app->add_option("--output", options->output, "Run folder (default: runs/<date>/<time>_<name>)");
  AddDeviceOption(app, &options->experiment.device);
  AddIsolateOption(app, &options->experiment);
  AddPluginDirOption(app, &options->experiment.plugin_dirs);
  app->add_option("overrides", options->experiment.overrides,
                  "Changes to the teacher's config: training.num_epochs=50");
  return [options] {
    return RunOnRanks([&](core::Communicator& ranks) { return Distill(*options, ranks); });
  };
}

}  // namespace dp_bench::app
