// dp_bench eval: rolls out a checkpoint.
#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/process.h"
#include "app/verbs.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/stop_signal.h"
#include "evaluate/checkpoint_evaluation.h"
#include "evaluate/delay_grid.h"
#include "evaluate/predicted_cost.h"
#include "evaluate/verification.h"
#include "run/result_files.h"

namespace dp_bench::app {
namespace {

constexpr const char* kEvalExamples =
    R"(Examples:
  dp_bench eval --checkpoint models/pusht_unet_hybrid
  dp_bench eval --checkpoint models/pusht_unet_hybrid --output runs/mine env_runner.n_test=100
  dp_bench eval --policy remote --env pusht policy.params.url=ws://127.0.0.1:8000
  dp_bench eval --checkpoint models/pusht_unet_hybrid --delays 0,2,4 --execute 8 --chunking naive,rtc n_action_steps=15
  dp_bench eval --checkpoint models/pusht_unet_hybrid policy.weights=bf16 --verify-against models/pusht_unet_hybrid --output runs/bf16 env_runner.n_test=2000
  dp_bench eval --checkpoint models/pusht_unet_hybrid --record-dataset data/rollouts.zarr
  dp_bench eval --checkpoint models/pusht_unet_hybrid --output runs/mine --shard 0/50
  dp_bench eval --resume runs/mine
  dp_bench eval --resume runs/mine env_runner.n_test=400)";

struct EvalVerbOptions {
  evaluate::CheckpointEvaluationOptions evaluation;
  std::vector<std::string> arms;
  evaluate::DelayGrid grid;
  evaluate::VerificationOptions verification;
  bool is_realtime = false;
  std::string shard;
  bool is_dry_run = false;
  std::filesystem::path json;  // of the dry run
};

int PredictEvaluationCost(const EvalVerbOptions& options) {
  run::RequireResultFiles({{"--json", options.json, run::kPredictionJson}});
  const auto cost = evaluate::PredictCost(options.evaluation);
  if (!cost) return core::kExitInterrupted;
  if (!options.json.empty()) {
    run::WritePredictions(options.json, {{run::kPredictedEvaluation, *cost}});
  }
  core::PrintResult("all episodes take {}; from {}\n", run::Describe(*cost), cost->tried);
  return 0;
}

// Says which overrides are of a training, so an evaluation does not read them. The command of a
// suite has those of its trainings too, so they are no error.
void WarnOfTrainingKeys(const std::vector<std::string>& overrides) {
  constexpr std::string_view kSections[] = {"training",   "optimizer",      "ema",
                                            "dataloader", "val_dataloader", "normalizer"};
  for (const std::string& text : overrides) {
    const std::string key = text.substr(0, text.find('='));
    const std::string section = key.substr(0, key.find('.'));
    const bool is_read =  // or holds what is
        key == "training" || key == "training.device" || key == "training.rollout_every";
    if (is_read || std::ranges::find(kSections, section) == std::end(kSections)) continue;
    core::LogWarning("{}: an evaluation does not read this key, so the value has no effect{}", text,
                     key == "training.use_ema" ? "; --weights ema or model chooses" : "");
  }
}

int Evaluate(EvalVerbOptions options, core::Communicator& ranks) {
  core::CatchStopSignals();  // also while loading: an interrupted evaluation can be resumed
  std::vector<std::string>& overrides = options.evaluation.experiment.overrides;
  if (ranks.is_root()) WarnOfTrainingKeys(overrides);
  if (ranks.is_root()) ChooseCheckpoint(&options.evaluation.checkpoint);
  task::ExperimentOptions& experiment = options.evaluation.experiment;
  experiment.takes_env_only = experiment.policy.empty() && !experiment.env.empty();
  options.evaluation.checkpoint = ranks.FromRoot(options.evaluation.checkpoint.string());
  if (options.is_realtime) overrides.insert(overrides.begin(), "env_runner.realtime=true");
  if (!options.arms.empty())
    return evaluate::EvaluateWithArms(options.evaluation, options.arms, ranks);
  if (!options.verification.reference.empty()) {
    if (ranks.size() > 1) throw UsageError("--verify-against works in one process, not in mpirun");
    if (!options.grid.empty()) {
      throw UsageError(
          "--verify-against judges a single evaluation; instead of the lists --delays, "
          "--latencies, --execute and --chunking, set the keys of env_runner.chunking");
    }
    if (options.evaluation.output.empty() && options.evaluation.resume.empty()) {
      throw UsageError("--verify-against requires --output, or --resume with that folder");
    }
    ChooseCheckpoint(&options.verification.reference);
    return evaluate::EvaluateVerified(options.evaluation, options.verification);
  }
  const evaluate::DelayGrid& grid = options.grid;
  const bool has_delays = !grid.delays.empty() || !grid.latencies_ms.empty();
  if (!has_delays && (!grid.execute.empty() || !grid.methods.empty())) {
    throw UsageError(
        "--execute and --chunking are lists for --delays or --latencies; for a single evaluation "
        "set env_runner.chunking.execute and env_runner.chunking.method");
  }
  if (has_delays) return evaluate::EvaluateDelayGrid(options.evaluation, grid, ranks);
  if (options.is_dry_run) return ranks.is_root() ? PredictEvaluationCost(options) : 0;
  return evaluate::CheckpointEvaluation(options.evaluation, ranks).RunToItsEnd();
}

void AddEnvOptions(CLI::App* app, task::ExperimentOptions* experiment, CLI::Option* resume) {
  AddConfigDirOption(app, &experiment->config_dirs);
  app->add_option("--env", experiment->env,
                  "Of --policy, or for a checkpoint another env than the training's: "
                  "configs/task/<env>.json")
      ->excludes(resume);
  app->add_option("--obs", experiment->obs, "With --env: configs/task/<env>_<obs>.json")
      ->excludes(resume);
}

CLI::Option* AddRecordingOptions(CLI::App* app, evaluate::RecordingOptions* recording,
                                 std::initializer_list<CLI::Option*> refused) {
  CLI::Option* record =
      app->add_option("--record-dataset", recording->output,
                      "Also write the test episodes as a dataset, which must not exist: every "
                      "observation and executed action, in the order of the seeds");
  for (CLI::Option* other : refused) record->excludes(other);
  app->add_option("--format", recording->format,
                  "Of --record-dataset: zarr, lerobot, hdf5, or another writer plugin")
      ->capture_default_str()
      ->needs(record);
  app->add_flag("--record-successes", recording->only_successes,
                "Leave out of --record-dataset the episodes without success")
      ->needs(record);
  return record;
}

// What the world does while the policy plans. The lists are multiplied.
void AddGridOptions(CLI::App* app, evaluate::DelayGrid* grid,
                    std::initializer_list<CLI::Option*> refused) {
  CLI::Option* delays =
      AddList(app, "--delays", &grid->delays,
              "Evaluate once for each: a plan takes this many control steps, in which the world "
              "moves; 0: the world waits")
          ->check(CLI::Range(0, 10'000));
  CLI::Option* latencies =
      AddList(app, "--latencies", &grid->latencies_ms, "The same in ms; 0: the world waits")
          ->check(CLI::Range(0.0, 1.0e6))
          ->check(&RefuseNan)
          ->excludes(delays);
  CLI::Option* execute =
      AddList(app, "--execute", &grid->execute,
              "With --delays: for each of these numbers of control steps from plan to plan; "
              "default: as many as the chunk allows")
          ->check(CLI::Range(1, 10'000));
  CLI::Option* methods =
      AddList(app, "--chunking", &grid->methods,
              "With --delays: for each of these ways to join chunks: naive, hard_prefix, rtc, "
              "training_time_rtc, state_roll_forward, a2c2, bid, temporal_ensembling");
  for (CLI::Option* option : {delays, latencies, execute, methods}) {
    for (CLI::Option* other : refused) option->excludes(other);
  }
}

// A verdict on a faster policy.
void AddVerificationOptions(CLI::App* app, evaluate::VerificationOptions* verification,
                            std::initializer_list<CLI::Option*> refused) {
  CLI::Option* verify = AddFolder(
      app, "--verify-against", &verification->reference,
      "Show on the test seeds that the success rate is not below that of this checkpoint, "
      "which runs without the overrides of policy; exits like dp_bench gate. With --resume: "
      "continue, also with more seeds");
  for (CLI::Option* other : refused) verify->excludes(other);
  AddNumber(app, "--margin", &verification->margin, 0.001, 0.5,
            "Of --verify-against: the drop of the success rate that a PASS excludes")
      ->needs(verify);
}

CLI::Option* AddShardOption(CLI::App* app, std::string* shard) {
  return app->add_option(
      "--shard", *shard,
      "i/n: only the i-th of n parts of the episodes, from 0 on, in a folder below --output; then "
      "dp_bench merge. auto: what Slurm, Kubernetes, MPI or torchrun say");
}

}  // namespace

Verb AddEval(CLI::App* app) {
  auto arguments = std::make_shared<EvalVerbOptions>();
  app->footer(kEvalExamples);
  evaluate::CheckpointEvaluationOptions* const options = &arguments->evaluation;
  CLI::Option_group* source = app->add_option_group("source");
  AddFolder(source, "--checkpoint", &options->checkpoint,
            "Checkpoint folder, or run folder (its best or else latest checkpoint)");
  CLI::Option* resume =
      AddFolder(source, "--resume", &options->resume,
                "Folder of an interrupted evaluation to continue, with its own config, or of "
                "a finished one to extend (env_runner.n_test=400)");
  source->add_option("--policy", options->experiment.policy,
                     "A policy without weights: configs/policy/<name>.json; with --env");
  source->require_option(1);
  AddWeightsOption(app, &options->weights)->excludes(resume);
  AddEnvOptions(app, &options->experiment, resume);
  app->add_option("--task", options->experiment.task, "Another task of its env (env.params.task)")
      ->excludes(resume);
  AddDeviceOption(app, &options->experiment.device);
  CLI::Option* perturb =
      AddList(app, "--perturb", &arguments->arms,
              "Also with these perturbations, each KIND or KIND=STRENGTH: light, camera, "
              "friction (what the env has), delay [steps], noise, null");
  app->add_flag("--realtime", arguments->is_realtime,
                "Simulated time passes while the policy plans (env_runner.realtime)")
      ->excludes(resume);
  CLI::Option* shard = AddShardOption(app, &arguments->shard)->excludes(resume)->excludes(perturb);
  CLI::Option* dry_run = app->add_flag("--dry-run", arguments->is_dry_run,
                                       "Run a few episodes, and say what all of them will cost")
                             ->excludes(resume)
                             ->excludes(perturb);
  AddPredictionFile(app, &arguments->json);
  CLI::Option* record = AddRecordingOptions(app, &options->recording, {perturb, shard});
  AddGridOptions(app, &arguments->grid, {perturb, shard, dry_run, record});
  AddIsolateOption(app, &options->experiment);
  app->add_option("--output", options->output, "Run folder (default: runs/<date>/<time>_<name>)")
      ->excludes(resume);
  AddVerificationOptions(app, &arguments->verification, {perturb, shard, dry_run, record});
  app->add_flag("--overwrite", options->overwrites,
                "Replace an evaluation in --output; a training is never overwritten")
      ->excludes(resume);
  AddPluginDirOption(app, &options->experiment.plugin_dirs);
  app->add_option(
      "overrides", options->experiment.overrides,
      "Config values: env_runner.n_test=100; with --resume only this one, for more seeds");
  return [arguments] {
    const std::string& part = arguments->shard;
    if (!part.empty()) arguments->evaluation.shard = run::ReadShard(part);
    if (part == "auto" && run::IsMpiRank()) {  // each rank is a shard of its own
      core::SingleProcess alone;
      return Evaluate(*arguments, alone);
    }
    return RunOnRanks([&](core::Communicator& ranks) { return Evaluate(*arguments, ranks); });
  };
}

}  // namespace dp_bench::app
