// dp_bench diagnose: why does this training, or this sampling, not work?
#include <memory>
#include <optional>

#include "app/collection.h"
#include "app/verbs/verbs.h"
#include "checkpoint/store.h"
#include "core/console.h"
#include "diagnose/diagnosis.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDiagnoseDetails =
    R"(Looks for what is wrong, and says with which numbers: in the demonstrations, in how they fit the env,
in the normalizer, the diffusion process, the settings, the first updates of a training (a config),
or in weights, sampling and a few rollouts (a checkpoint), and in the log (a run folder). Runs on the
CPU. The exit code is 1 when a problem was found.

Examples:
  dp_bench diagnose --policy unet_hybrid --env point_mass
  dp_bench diagnose --run runs/2026-11-21/10-00-00_unet_hybrid_pusht
  dp_bench diagnose --checkpoint models/pusht_unet_hybrid --dataset data/mine.zarr)";

struct DiagnoseVerbOptions {
  ExperimentOptions experiment;
  fs::path run;
  fs::path checkpoint;
  int n_rollouts = 8;
  bool as_json = false;
};

// The checkpoint folder that was asked for; empty for a config alone.
fs::path CheckpointFolder(const DiagnoseVerbOptions& options) {
  if (!options.checkpoint.empty()) return options.checkpoint;
  return options.run.empty() ? fs::path() : options.run / "checkpoints" / kLatest;
}

// A config of a checkpoint or run is its own; the command line may change values of it.
ExperimentOptions DiagnosedExperiment(const DiagnoseVerbOptions& options) {
  ExperimentOptions subject = options.experiment;
  const fs::path folder = CheckpointFolder(options);
  if (!folder.empty()) subject.config = folder / "config.json";
  return subject;
}

std::optional<fs::path> Log(const DiagnoseVerbOptions& options) {
  const fs::path log = options.run / "logs.json.txt";
  return options.run.empty() || !fs::exists(log) ? std::nullopt : std::optional(log);
}

int RunDiagnosis(const DiagnoseVerbOptions& options) {
  const ExperimentOptions asked = DiagnosedExperiment(options);
  const Experiment experiment(asked);
  if (!ProvideDatasetAlone(experiment)) return kExitInterrupted;
  const std::unique_ptr<Dataset> dataset = experiment.CreateDataset();
  const fs::path folder = CheckpointFolder(options);
  std::optional<Checkpoint> checkpoint;
  if (!folder.empty()) checkpoint = Checkpoint::Open(folder);

  const auto make_policy = [&](const std::vector<std::string>& overrides) {
    if (overrides.empty()) return experiment.CreatePolicy();
    ExperimentOptions changed = asked;
    changed.overrides.insert(changed.overrides.end(), overrides.begin(), overrides.end());
    return Experiment(changed).CreatePolicy();
  };
  const Findings findings = Diagnose({.config = experiment.config(),
                                      .spec = experiment.spec(),
                                      .dataset = *dataset,
                                      .make_policy = make_policy,
                                      .make_env = [&experiment] { return experiment.CreateEnv(); },
                                      .checkpoint = checkpoint ? &*checkpoint : nullptr,
                                      .log = Log(options),
                                      .n_rollouts = options.n_rollouts});
  PrintResult("{}", options.as_json ? ToJson(findings).dump(2) + "\n" : ToText(findings));
  return HasProblems(findings) ? 1 : 0;
}

}  // namespace

Verb AddDiagnose(CLI::App* app) {
  auto options = std::make_shared<DiagnoseVerbOptions>();
  app->footer(kDiagnoseDetails);
  AddExperimentOptions(app, &options->experiment);
  CLI::Option* run =
      app->add_option("--run", options->run, "Run folder, with its latest checkpoint")
          ->check(CLI::ExistingDirectory);
  app->add_option("--checkpoint", options->checkpoint, "Checkpoint folder")
      ->check(CLI::ExistingDirectory)
      ->excludes(run);
  app->add_option("--rollouts", options->n_rollouts, "Episodes to roll a checkpoint out; 0: none")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app->add_flag("--json", options->as_json, "Print JSON");
  return [options] { return RunDiagnosis(*options); };
}

}  // namespace dp_bench
