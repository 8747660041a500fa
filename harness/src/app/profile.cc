// dp_bench profile: shows where the time goes, and what to change.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "app/verbs.h"
#include "core/console.h"
#include "core/exit_code.h"
#include "core/output_file.h"
#include "profile/profile_experiment.h"
#include "run/checkpoint.h"
#include "run/result_files.h"
#include "run/run_files.h"
#include "task/key_check.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProfileDetails =
    R"(Trains for some steps on the config's dataset and plans action chunks, at batch 1 and in the
micro-batch of a rollout. Prints where the time goes, how close that is to the limit of this machine,
and which config keys to change. See docs/profiling.md.

Examples:
  dp_bench profile --policy unet_hybrid --env pusht
  dp_bench profile --policy transformer --env pusht --trace trace.json dataloader.batch_size=64
  dp_bench profile --checkpoint models/pusht_unet_hybrid --json profile.json)";

struct ProfileVerbOptions {
  task::ExperimentOptions experiment;
  profile::ProfileOptions profile;
  fs::path checkpoint;
  fs::path trace;
  fs::path json;
};

int Profile(ProfileVerbOptions options) {
  run::RequireResultFiles(
      {{"--json", options.json, run::kProfileJson}, {"--trace", options.trace, run::kTraceFile}});
  ChooseCheckpoint(&options.checkpoint);
  std::unique_ptr<Policy> trained;
  const bool is_of_checkpoint = !options.checkpoint.empty() && options.experiment.config.empty() &&
                                options.experiment.env.empty();
  if (is_of_checkpoint) options.experiment.config = options.checkpoint / run::kConfigFile;
  const task::Experiment experiment(options.experiment);
  if (!options.checkpoint.empty()) {
    trained = experiment.LoadPolicy(run::Checkpoint::Open(options.checkpoint), "ema");
  }
  const auto dataset = task::ProvideCheckedDataset(
      experiment, {.makes_policy = true, .is_of_checkpoint = is_of_checkpoint});
  if (dataset == nullptr) return core::kExitInterrupted;
  std::vector<profile::OpEvent> events;
  const nlohmann::json profile = profile::ProfileExperiment(experiment, *dataset, options.profile,
                                                            std::move(trained), &events);
  core::PrintResult("{}", profile::ProfileText(profile, options.profile.n_listed));
  if (!options.json.empty()) core::WriteOutput(options.json, profile.dump(2) + "\n");
  if (options.trace.empty()) return 0;
  const std::string name = fmt::format("dp_bench: {} on {}", profile["policy"].get<std::string>(),
                                       profile["task"].get<std::string>());
  core::WriteOutput(options.trace, profile::ChromeTrace(events, name));
  core::PrintResult("trace: {}, for https://ui.perfetto.dev\n", options.trace.string());
  return 0;
}

}  // namespace

Verb AddProfile(CLI::App* app) {
  auto options = std::make_shared<ProfileVerbOptions>();
  app->footer(kProfileDetails);
  AddExperimentOptions(app, &options->experiment);
  AddFolder(app, "--checkpoint", &options->checkpoint,
            "Plan action chunks with its weights; without --config or --env also with its config");
  AddNumber(app, "--steps", &options->profile.n_steps, 1, 10'000, "Training steps to time");
  AddNumber(app, "--operators", &options->profile.n_listed, 1, 1000, "Operators in each table");
  app->add_option("--trace", options->trace, "Write a trace for Perfetto or chrome://tracing");
  app->add_option("--json", options->json, "Write the figures, with all operators, to this file");
  return [options] { return Profile(*options); };
}

}  // namespace dp_bench::app
