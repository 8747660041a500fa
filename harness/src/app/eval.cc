// dp_bench eval: roll out a checkpoint.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "app/evaluation.h"
#include "app/manifest.h"
#include "app/ranks.h"
#include "app/stop_signal.h"
#include "app/verbs.h"
#include "checkpoint/checkpoint.h"
#include "config/loader.h"
#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "rollout/episode_journal.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;

// Rows of episodes that have ended, until all have: then episodes.jsonl takes its place.
constexpr const char* kJournalFile = "episodes.partial.jsonl";

struct Options {
  ExperimentOptions experiment;
  fs::path checkpoint;
  fs::path output;
  fs::path resume;
  std::string weights = "ema";
};

// An evaluation that goes on is its folder: checkpoint and config come from there.
void TakeFromFolder(Options* options) {
  const fs::path manifest = options->resume / "manifest.json";
  const auto json = nlohmann::json::parse(ReadTextFile(manifest, 1U << 24), nullptr, false);
  if (!json.is_object() || !json.contains("checkpoint")) {
    throw Error(ErrorCode::kUsage,
                fmt::format("'{}' is not the folder of an evaluation: its manifest.json names no "
                            "checkpoint",
                            options->resume.string()));
  }
  options->checkpoint = json["checkpoint"].at("folder").get<std::string>();
  options->weights = json["checkpoint"].at("weights").get<std::string>();
  options->experiment.config = options->resume / "config.json";
  options->output = options->resume;
}

// Runs the episodes that the journal lacks; the result has those that it has too.
RunResult RunRemaining(Evaluation& evaluation, Policy& policy, torch::Device device,
                       EpisodeJournal& journal) {
  std::vector<int> places(evaluation.runner().jobs().size());
  std::iota(places.begin(), places.end(), 0);
  for (const EpisodeRecord& record : journal.found()) std::erase(places, record.episode);
  RunResult result =
      evaluation.Run(policy, device, places,
                     {.stop = &CatchStopSignals(),
                      .on_episode = [&](const EpisodeRecord& record) { journal.Append(record); }});
  std::ranges::copy(journal.found(), std::back_inserter(result.records));
  std::ranges::sort(result.records, {}, &EpisodeRecord::episode);
  return result;
}

int Evaluate(Options options, Communicator& ranks) {
  const bool is_resumed = !options.resume.empty();
  if (is_resumed) {
    TakeFromFolder(&options);
  } else {
    options.experiment.config = options.checkpoint / "config.json";
  }
  const Checkpoint checkpoint = Checkpoint::Open(options.checkpoint);
  const Experiment experiment(options.experiment);
  const std::unique_ptr<Policy> policy = experiment.LoadPolicy(checkpoint, options.weights);

  const fs::path output = options.output.empty()
                              ? fs::path(ranks.FromRoot(NewRunFolder(experiment).string()))
                              : options.output;
  fs::create_directories(output);
  fmt::print("run folder: {}\n", output.string());
  Evaluation evaluation(experiment, ranks, output);
  for (const char* section : {"env", "policy", "env_runner"}) {
    experiment.config().Sub(section).RejectUnread();
  }
  const std::string manifest =
      MakeManifest(experiment, ranks.size(), CheckpointChoice{options.checkpoint, options.weights});
  const fs::path journal_file = output / kJournalFile;
  if (is_resumed) {
    RequireSameManifest(output / "manifest.json", manifest);
  } else if (ranks.is_root()) {
    fs::remove(journal_file);
    WriteResolvedConfig(experiment.config(), output / "config.json");
    WriteFileAtomically(output / "manifest.json", std::string_view(manifest));
  }

  // ranks share no file: several of them start over
  std::optional<EpisodeJournal> journal;
  if (ranks.size() == 1) {
    journal.emplace(journal_file, evaluation.runner().metric_names());
  }
  const RunResult result =
      journal ? RunRemaining(evaluation, *policy, experiment.device(), *journal)
              : evaluation.Run(*policy, experiment.device(), {.stop = &CatchStopSignals()});
  if (result.is_interrupted) {
    fmt::print("interrupted after {} of {} episodes; continue with --resume {}\n",
               result.records.size(), evaluation.runner().jobs().size(), output.string());
    return kExitInterrupted;
  }
  if (!ranks.is_root()) return 0;
  const int exit_code = ReportEvaluation(result, output);
  fs::remove(journal_file);
  return exit_code;
}

}  // namespace

Verb AddEval(CLI::App* app) {
  auto options = std::make_shared<Options>();
  CLI::Option_group* source = app->add_option_group("source");
  source->add_option("--checkpoint", options->checkpoint, "Checkpoint folder")
      ->check(CLI::ExistingDirectory);
  CLI::Option* resume =
      source
          ->add_option("--resume", options->resume,
                       "Folder of an interrupted evaluation to continue, with its own config")
          ->check(CLI::ExistingDirectory);
  source->require_option(1);
  app->add_option("--weights", options->weights, "Which weights: ema or model")
      ->check(CLI::IsMember({"ema", "model"}))
      ->capture_default_str()
      ->excludes(resume);
  app->add_option("--task", options->experiment.task, "Another task of its env (env.params.task)")
      ->excludes(resume);
  app->add_option("--device", options->experiment.device, "cpu, cuda, cuda:1 (training.device)");
  AddIsolateOption(app, &options->experiment);
  app->add_option("--output", options->output, "Run folder (default: runs/<date>/<time>_<name>)")
      ->excludes(resume);
  app->add_option("--plugin-dir", options->experiment.plugin_dirs,
                  "Folder to search for plugins first; may be repeated")
      ->allow_extra_args(false);
  app->add_option("overrides", options->experiment.overrides,
                  "Config values: env_runner.n_test=100")
      ->excludes(resume);
  return [options] {
    return RunOnRanks([&](Communicator& ranks) { return Evaluate(*options, ranks); });
  };
}

}  // namespace dp_bench
