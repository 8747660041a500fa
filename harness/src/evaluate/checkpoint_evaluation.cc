#include "evaluate/checkpoint_evaluation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/exit_code.h"
#include "core/json.h"
#include "core/sha256.h"
#include "core/shell.h"
#include "core/stop_signal.h"
#include "core/ticket_file.h"
#include "dp_bench/policy.h"
#include "evaluate/certify_policy.h"
#include "planner/policy_planner.h"
#include "planner/policy_weights.h"
#include "run/checkpoint.h"
#include "run/manifest.h"
#include "run/run_files.h"
#include "task/key_check.h"
#include "train/train_config.h"
#include "train/train_state.h"

namespace dp_bench::evaluate {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxEpisodeBytes = std::size_t{512} << 20;

int NTest(const nlohmann::json& config) { return run::ReportSeeds(config).n; }

// The weights that `dp_bench run` evaluated: those that its training ended with. They stay the
// same only once the training is over.
run::CheckpointChoice WeightsOfRun(const run::RunFolder& run) {
  const std::string path = run.path.string();
  const auto refuse = [&](const std::string& why) {
    throw UsageError(
        "'{0}' has no evaluation that can be continued: {1}. Evaluate its policy in a folder of "
        "its own: dp_bench eval --checkpoint {0} env_runner.n_test=N",
        path, why);
  };
  if (run.config.empty()) refuse(fmt::format("it has no {}", run::kConfigFile));
  if (run.eval_log.is_null() && !fs::exists(run.path / run::kJournalFile)) {
    refuse("nothing was evaluated, or not to its end (dp_bench run --resume continues a run)");
  }
  const Config config = Config::FromJson(run.config, run.config_file().string());
  if (!train::CheckpointConfig::FromConfig(config.Sub("checkpoint")).save_last_ckpt) {
    refuse("checkpoint.save_last_ckpt is false, so the weights were not kept");
  }
  const fs::path latest = run.path / run::kCheckpointsFolder / run::kLatest;
  const run::Checkpoint checkpoint = run::Checkpoint::Open(latest);
  const auto training = train::TrainingConfig::FromConfig(config.Sub("training"));
  const auto state = train::TrainState::FromJson(checkpoint.state(), latest.string());
  const bool is_out_of_time =
      training.max_minutes && state.seconds.value_or(0.0) >= *training.max_minutes * 60.0;
  if (state.epoch < training.num_epochs && !is_out_of_time) {
    refuse(fmt::format("its training is at epoch {} of {} (dp_bench run --resume continues it)",
                       state.epoch, training.num_epochs));
  }
  return {fs::absolute(latest), training.use_ema ? "ema" : "model"};
}

// With more seeds for the evaluation of a run, the config still says how many its training had.
task::ExperimentOptions KeepSelection(task::ExperimentOptions options, const run::RunFolder& run) {
  if (options.overrides.empty()) return options;
  const nlohmann::json config = core::ParseJson(run.config, run.config_file().string());
  const int n = run::SelectionSeeds(config).n;
  options.overrides.push_back(fmt::format("env_runner.n_selection={}", n));
  return options;
}

}  // namespace

task::ExperimentOptions WithConfig(const CheckpointEvaluationOptions& options) {
  task::ExperimentOptions experiment = options.experiment;
  if (experiment.config.empty() && !options.checkpoint.empty()) {
    experiment.config = options.checkpoint / run::kConfigFile;
  }
  return experiment;
}

run::RunFolder TakeFromFolder(CheckpointEvaluationOptions* options) {
  run::RunFolder run = run::ReadRunFolder(options->resume);
  const auto evaluated = run::EvaluatedCheckpoint(run.manifest);
  const run::CheckpointChoice choice = evaluated ? *evaluated : WeightsOfRun(run);
  options->checkpoint = choice.folder;
  options->weights = choice.weights;
  options->experiment.config = run.config_file();
  if (run.config.empty()) run::RequireFinished(run);
  return run;
}

CheckpointEvaluation::CheckpointEvaluation(CheckpointEvaluationOptions options,
                                           core::Communicator& ranks)
    : options_(std::move(options)), ranks_(ranks) {
  OpenFolder();
  std::optional<run::RunFolder> resumed;
  if (!options_.resume.empty()) {
    resumed = TakeFromFolder(&options_);
  } else if (continues_) {
    resumed = run::ReadRunFolder(folder());
  }
  options_.experiment = WithConfig(options_);
  if (options_.resume.empty() && options_.checkpoint.empty()) {
    // CertifiedPolicy says more, and refuses nothing
    options_.experiment.overrides.push_back("env_runner.check_batch_invariance=false");
  }
  if (options_.resume.empty()) ProvideRealtimeLatency(&options_, ranks_);
  is_of_training_ = resumed && !run::EvaluatedCheckpoint(resumed->manifest);
  experiment_ = std::make_unique<task::Experiment>(
      is_of_training_ ? KeepSelection(options_.experiment, *resumed) : options_.experiment);
  if (!options_.resume.empty()) RequireExtension(*resumed);
  LoadPolicy();
  if (resumed) FindEpisodes(*resumed);
  RequireRecordable(options_.recording, *experiment_, folder(), resumed.has_value(), found_);
  if (!options_.recording.output.empty()) evaluation_->RecordSteps();

  // a signal between the first file and the first episode must not end the program
  core::CatchStopSignals();
  folder_->Begin();
  WriteHead();
  if (!options_.recording.output.empty() && ranks_.is_root()) {
    NoteRecording(options_.recording, folder());
  }
}

void CheckpointEvaluation::LoadPolicy() {
  const bool has_weights = !options_.checkpoint.empty();
  std::optional<Normalizer> normalizer;
  if (has_weights) {
    const run::Checkpoint checkpoint = run::Checkpoint::Open(options_.checkpoint);
    policy_ = experiment_->LoadPolicy(checkpoint, options_.weights);
    normalizer = planner::NormalizerOf(checkpoint);
  } else {
    policy_ = experiment_->CreateWithoutWeights();
  }
  if (folder_ == nullptr) folder_ = std::make_unique<task::OutputFolder>(*experiment_, ranks_);
  evaluation_ = std::make_unique<Evaluation>(*experiment_, ranks_, folder());
  if (normalizer) evaluation_->SetNormalizer(*normalizer);
  evaluation_->RequirePlannable(*policy_, experiment_->device());
  task::RejectUnknownKeys(*experiment_, {.makes_policy = true, .is_of_checkpoint = has_weights});
}

void CheckpointEvaluation::OpenFolder() {
  if (options_.shard) {
    if (options_.output.empty()) {
      throw UsageError("--shard needs --output: the folder of all shards");
    }
    const fs::path shard = options_.output / options_.shard->FolderName();
    if (options_.overwrites && fs::exists(options_.output / run::kManifestFile)) {
      throw UsageError(
          "--overwrite: '{}' has what `dp_bench merge` made of the old shards; remove its files, "
          "or give another --output",
          options_.output.string());
    }
    // rank 0 looks while no rank writes there
    const bool is_begun = ranks_.is_root() && fs::exists(shard / run::kConfigFile);
    continues_ = !options_.overwrites && ranks_.AllReduceMax(is_begun ? 1 : 0) != 0;
    folder_ = std::make_unique<task::OutputFolder>(
        shard, options_.overwrites ? task::OldRun::kOverwrite : task::OldRun::kContinue, ranks_);
  } else if (!options_.resume.empty()) {
    continues_ = true;
    options_.shard = run::ShardOf(options_.resume);
    folder_ =
        std::make_unique<task::OutputFolder>(options_.resume, task::OldRun::kContinue, ranks_);
  } else if (!options_.output.empty()) {
    folder_ = std::make_unique<task::OutputFolder>(
        options_.output,
        options_.overwrites ? task::OldRun::kOverwrite : task::OldRun::kMayOverwrite, ranks_);
  }
}

// A folder that is resumed keeps its config, except for more seeds.
void CheckpointEvaluation::RequireExtension(const run::RunFolder& run) const {
  constexpr std::string_view kMoreSeeds = "env_runner.n_test=";
  const std::vector<std::string>& overrides = options_.experiment.overrides;
  if (overrides.empty()) return;
  if (!std::ranges::all_of(
          overrides, [&](const std::string& value) { return value.starts_with(kMoreSeeds); })) {
    throw UsageError(
        "--resume continues with the config of '{}', of which only {}N may change, to a larger "
        "number; found {}. Evaluate with another config into another --output folder.",
        options_.resume.string(), kMoreSeeds, fmt::join(overrides, " "));
  }
  if (ranks_.size() > 1)
    throw UsageError("more seeds for a finished evaluation need a single process");
  const int before = NTest(core::ParseJson(run.config, run.config_file().string()));
  const int now = NTest(nlohmann::json::parse(experiment_->config().ToJson()));
  if (now >= before) return;
  throw UsageError("'{}' has env_runner.n_test={}, which can only be raised; found {}",
                   options_.resume.string(), before, now);
}

// The episodes of the result, if there is one, and of the journals.
void CheckpointEvaluation::FindEpisodes(const run::RunFolder& run) {
  std::map<int, run::EpisodeRecord> found;
  const auto take = [&found](std::vector<run::EpisodeRecord> records) {
    for (run::EpisodeRecord& record : records) found.emplace(record.episode, std::move(record));
  };
  for (const fs::path& journal : run::JournalsIn(folder())) {
    take(run::EpisodeJournal::ReadEpisodes(journal, runner().metric_names(),
                                           run::RunIdOf(run.manifest)));
  }
  if (!run.eval_log.is_null()) {
    const fs::path result = folder() / run::kEpisodesFile;
    take(run::ParseEpisodes(core::ReadTextFile(result, kMaxEpisodeBytes), result.string(),
                            runner().metric_names()));
  }
  for (auto& [episode, record] : found) found_.push_back(std::move(record));
}

// A shard whose command is repeated, with the config of its folder.
std::string CheckpointEvaluation::ContinueShard(const std::string& manifest) {
  std::string found = task::RequireSameManifest(folder(), manifest);
  const std::string begun =
      core::TextAt(nlohmann::json::parse(found), fmt::format("/{}", run::kConfigHashKey));
  if (begun == core::Sha256Hex(experiment_->config().ToJson() + "\n")) return found;
  throw UsageError(
      "'{}' {} config; its remaining episodes would not match the others. Start over in another "
      "--output folder.",
      folder().string(), run::kBegunWithAnother);
}

// Returns the manifest. If there are more seeds now, a kill at any moment leaves a folder that the
// same command continues: the journal without a head and the manifest without an id fit to both.
std::string CheckpointEvaluation::ContinueHead(const std::string& manifest) {
  std::string found = task::RequireSameManifest(folder(), manifest);
  auto extended = nlohmann::json::parse(run::WithoutRunId(found));
  extended["seeds"].merge_patch(nlohmann::json::parse(manifest)["seeds"]);
  const std::string anonymous = extended.dump(2) + "\n";
  const std::string config = experiment_->config().ToJson() + "\n";
  const std::string with_id = run::WithRunId(anonymous, config);
  if (options_.experiment.overrides.empty() || run::RunIdOf(with_id) == run::RunIdOf(found)) {
    return found;
  }
  std::string rows;
  for (const run::EpisodeRecord& record : found_) {
    rows += run::EpisodeRow(record, runner().metric_names()) + "\n";
  }
  const fs::path journal = folder() / run::kJournalFile;
  core::WriteFileAtomically(journal, rows);
  for (const fs::path& other : run::JournalsIn(folder())) {
    if (other != journal) core::RemoveAll(other);
  }
  for (const std::string_view stale : {run::kEvalLogFile, run::kEpisodesFile, run::kReportFile,
                                       run::kEffectsFile, run::kVerificationFile}) {
    core::RemoveAll(folder() / stale);
  }
  core::FsyncFolder(folder());
  core::WriteFileAtomically(folder() / run::kManifestFile, anonymous);
  core::WriteFileAtomically(folder() / run::kConfigFile, config);
  core::WriteFileAtomically(folder() / run::kManifestFile, with_id);
  return with_id;
}

// A policy of others may not be a function of the seed. Then its episodes are compared unpaired,
// like those of an env that is not.
std::string CheckpointEvaluation::CertifiedPolicy(const std::string& manifest) {
  std::vector<control::RecordedObs> rows;
  for (const int episode : {0, 1}) {
    if (episode >= static_cast<int>(runner().jobs().size())) break;
    if (auto row = runner().FirstObservation(episode)) rows.push_back(std::move(*row));
  }
  if (rows.empty()) {
    core::LogWarning(
        "the policy has no certificate, because the env of the first episodes could not be reset");
    return manifest;
  }
  planner::PolicyPlanner planner(*policy_, experiment_->device(),
                                 experiment_->runner().micro_batch);
  run::DeterminismCertificate certificate;
  try {
    certificate =
        CertifyPolicy(planner, experiment_->spec(), rows, PlaysOneEpisode(policy_->Provenance()));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kEnv) throw;
    core::LogWarning("{}; its episodes are played without a certificate", error.what());
    return manifest;
  }
  nlohmann::json json = nlohmann::json::parse(manifest);
  json[run::kPolicyDeterminismKey] = run::ToJson(certificate);
  if (certificate.difference) {
    core::LogWarning(run::Describe(certificate) + "; comparisons treat its episodes as unpaired");
    json[run::kDeterminismKey] = run::ToJson(certificate);
  } else {
    core::LogInfo("the policy is a function of (observation, seed): verified");
  }
  return json.dump(2) + "\n";
}

// The manifest has the hash of the config, so it is written first.
void CheckpointEvaluation::WriteHead() {
  std::optional<run::CheckpointChoice> checkpoint;  // the manifest of a training names none
  if (!is_of_training_) checkpoint = {options_.checkpoint, options_.weights};
  std::string manifest =
      task::MakeManifest(*experiment_, ranks_.size(), checkpoint, policy_->Provenance());
  if (!continues_) {
    if (ranks_.is_root()) {
      if (!options_.checkpoint.empty()) {
        task::WarnOfChangedPlugins(options_.checkpoint, manifest);
      }
      manifest = task::WithCertificate(*experiment_, manifest);
      if (options_.checkpoint.empty()) manifest = CertifiedPolicy(manifest);
    }
    manifest = ranks_.FromRoot(manifest);
    manifest = task::WriteRunHead(folder(), manifest, experiment_->config(), ranks_);
  } else {
    manifest = options_.resume.empty() ? ContinueShard(manifest) : ContinueHead(manifest);
  }
  if (ranks_.is_root()) {
    if (continues_) core::RemoveTemporaryFiles(folder());  // left by a kill
    core::RemoveAll(folder() / run::kTicketFile);
    if (options_.shard) run::WriteShard(folder(), *options_.shard);
  }
  journal_.emplace(run::JournalOf(folder(), ranks_.rank()), runner().metric_names(),
                   run::RunIdOf(manifest));
}

CheckpointEvaluation::~CheckpointEvaluation() = default;

// Of these episodes, those that no one has run; the same on all ranks, after all of them have read
// what is there.
std::vector<int> CheckpointEvaluation::Missing(std::span<const int> episodes) const {
  std::set<int> missing(episodes.begin(), episodes.end());
  for (const run::EpisodeRecord& record : found_) missing.erase(record.episode);
  const nlohmann::json of_root = missing;
  return nlohmann::json::parse(ranks_.FromRoot(of_root.dump())).get<std::vector<int>>();
}

run::RunResult CheckpointEvaluation::Run(std::span<const int> episodes) {
  const std::vector<int> missing = Missing(episodes);
  run::RunHooks hooks = {.stop = &core::CatchStopSignals()};
  hooks.on_episode = [this](const run::EpisodeRecord& record) { journal_->Append(record); };
  std::optional<core::TicketFile> tickets;  // the ranks take one episode after the other
  if (ranks_.size() > 1) {
    tickets.emplace(folder() / run::kTicketFile);
    hooks.next = [&]() -> std::optional<std::size_t> {
      const std::uint64_t next = tickets->Take();
      return next < missing.size() ? std::optional(static_cast<std::size_t>(next)) : std::nullopt;
    };
  }
  run::RunResult result;
  try {
    result = evaluation_->Run(*policy_, experiment_->device(), missing, hooks);
  } catch (Error& error) {
    if (error.code() == ErrorCode::kUnavailable) {
      error.AddContext(fmt::format(
          "the episodes that have ended are kept; continue with dp_bench eval --resume {}",
          core::ShellWord(folder().string())));
    }
    throw;
  }
  if (ranks_.is_root()) core::RemoveAll(folder() / run::kTicketFile);
  const std::set<int> asked(episodes.begin(), episodes.end());
  std::ranges::copy_if(
      found_, std::back_inserter(result.records),
      [&](const run::EpisodeRecord& record) { return asked.contains(record.episode); });
  std::ranges::sort(result.records, {}, &run::EpisodeRecord::episode);
  if (result.is_interrupted) RecordCost(meter_, folder(), ranks_);
  return result;
}

int CheckpointEvaluation::RunToItsEnd() {
  const auto n_jobs = static_cast<int>(runner().jobs().size());
  const std::vector<int> all = run::EpisodesOf(options_.shard.value_or(run::SeedShard{}), n_jobs);
  const run::RunResult result = Run(all);
  const RecordingOptions& recording = options_.recording;
  if (result.is_interrupted) {
    core::PrintResult(
        "interrupted after {} of {} episodes; continue with dp_bench eval --resume {}{}\n",
        result.records.size(), all.size(), core::ShellWord(folder().string()),
        CommandText(recording));
    return core::kExitInterrupted;
  }
  if (options_.shard) return EndShard(result);
  const int exit_code = Report(result);
  if (recording.output.empty() || !ranks_.is_root()) return exit_code;
  if (WriteRecordedDataset(recording, *experiment_, runner().env_spec(), folder(),
                           result.records)) {
    return exit_code;
  }
  core::PrintResult(
      "interrupted before the dataset was written; continue with dp_bench eval --resume {}{}\n",
      core::ShellWord(folder().string()), CommandText(recording));
  return core::kExitInterrupted;
}

int CheckpointEvaluation::EndShard(const run::RunResult& result) {
  if (!ranks_.is_root()) return 0;
  run::WriteLatency(folder(), evaluation_->MeasureLatency(*policy_, experiment_->device()));
  RecordCost(meter_, folder(), ranks_, result.records.size());
  const auto n_failed = std::ranges::count_if(result.records, &run::EpisodeRecord::has_failed);
  core::PrintResult(
      "shard {} of {}: {} episodes done, {} failed; when all shards are done: dp_bench merge {}\n",
      options_.shard->index, options_.shard->n, result.records.size(), n_failed,
      core::ShellWord(folder().parent_path().string()));
  return n_failed > 0 ? ExitCodeFor(ErrorCode::kEnv) : 0;
}

int CheckpointEvaluation::Report(const run::RunResult& result) {
  if (!ranks_.is_root()) return 0;
  const run::PolicyLatencySummary latency =
      evaluation_->MeasureLatency(*policy_, experiment_->device());
  RecordCost(meter_, folder(), ranks_, result.records.size());
  return ReportEvaluation(result, latency, folder());
}

}  // namespace dp_bench::evaluate
