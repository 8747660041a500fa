// dp_bench serve: a checkpoint behind a server.
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/process.h"
#include "app/verbs.h"
#include "config/loader.h"
#include "control/env_runner_config.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/stop_signal.h"
#include "planner/checkpoint_planner.h"
#include "planner/recording_planner.h"
#include "policy/device.h"
#include "run/manifest.h"
#include "serve/policy_server.h"

namespace dp_bench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kServeDetails =
    R"(An answer depends only on the weights, the observation and the seed, not on other clients.
SIGHUP loads the checkpoint again, for example the latest of a run. SIGTERM and Ctrl-C answer what was asked, and end.
The environment variable DP_BENCH_API_KEY, if it is set, is what clients must send (Authorization: Api-Key <key>).

Examples:
  dp_bench serve --checkpoint models/pusht_unet_hybrid
  dp_bench serve --checkpoint runs/mine --keys keys.json --port 8001 --log serve.jsonl
  curl http://127.0.0.1:8000/metrics)";

constexpr std::chrono::milliseconds kGrace{10000};

struct ServeVerbOptions {
  fs::path checkpoint;
  std::string weights = "ema";
  std::string device = "cpu";
  std::string protocol = "openpi";
  fs::path keys;
  int micro_batch = 0;
  double max_wait_ms = 2.0;
  int max_queue = 256;
  std::vector<fs::path> plugin_dirs;
  fs::path record_folder;
  std::shared_ptr<run::PlanRecordWriter> record;  // null: none is kept
  serve::PolicyServerOptions server;
};

struct ServedPolicy {
  std::shared_ptr<control::ChunkPlanner> planner;
  serve::PolicyInfo info;
  Config config;  // of the training
};

// Plans once, so that the first client waits no longer than others.
void WarmUp(planner::CheckpointPlanner& planner) {
  const PolicySpec& spec = planner.spec();
  const auto obs =
      control::MakeObsBatch(spec.shape_meta.obs, planner.batch_size(), spec.horizons.n_obs_steps);
  const control::PlanRow row;
  std::vector<float> actions(static_cast<std::size_t>(
      planner.batch_size() * spec.horizons.n_action_steps * spec.shape_meta.action_dim()));
  planner.Plan(obs, {&row, 1}, actions);
}

ServedPolicy LoadServed(const ServeVerbOptions& options) {
  fs::path folder = options.checkpoint;
  ChooseCheckpoint(&folder);
  const auto weights = options.weights == "ema" ? planner::Weights::kEma : planner::Weights::kModel;
  std::optional<int> micro_batch;
  if (options.micro_batch > 0) micro_batch = options.micro_batch;
  const auto planner = std::make_shared<planner::CheckpointPlanner>(
      run::Checkpoint::Open(folder), weights, policy::OpenDevice(options.device), micro_batch,
      options.plugin_dirs);
  WarmUp(*planner);
  ServedPolicy served = {.planner = planner,
                         .info = {.name = planner->policy_name(),
                                  .checkpoint_sha256 = run::CheckpointHash(folder),
                                  .spec = planner->spec(),
                                  .micro_batch = planner->batch_size()},
                         .config = planner->config()};
  if (options.record != nullptr) {
    served.planner =
        std::make_shared<planner::RecordingPlanner>(planner, options.record, planner->spec());
  }
  policy::ReleaseHelperThreads();  // another thread plans from now on
  return served;
}

// A client that executes the chunks as they are runs another policy than `eval`.
void WarnOfEnsemble(const Horizons& horizons, const serve::Protocol& protocol) {
  if (!horizons.temporal_ensemble_coeff || protocol.gives_single_actions()) return;
  core::LogWarning(
      "the policy has temporal ensembling, and answers are chunks: clients must ask at every step "
      "and average what up to {} plans have for it, as eval does with temporal_ensemble_coeff={}; "
      "with --protocol vla_eval, the server does it",
      horizons.n_action_steps, *horizons.temporal_ensemble_coeff);
}

// Nor does one that joins chunks in another way.
void WarnOfChunking(const Config& config, const Horizons& horizons,
                    const serve::Protocol& protocol) {
  const control::ChunkingConfig chunking =
      control::EnvRunnerConfig::FromConfig(config.Sub("env_runner")).chunking;
  const int n = horizons.n_action_steps;
  const bool is_ensembling = horizons.temporal_ensemble_coeff.has_value();  // at every step
  const int n_executed = is_ensembling ? 1 : chunking.execute > 0 ? chunking.execute : n;
  const bool is_usual = is_ensembling || n_executed == n;
  if (chunking.method == control::ChunkingMethod::kNaive && is_usual) return;
  core::LogWarning(
      "eval of this checkpoint has env_runner.chunking.method={} and executes {} of the {} actions "
      "of a plan, as its config says; serve does neither: {}",
      control::Name(chunking.method), n_executed, n,
      protocol.gives_single_actions()
          ? "it joins plans as an evaluation without these keys"
          : "answers are plans as they are, and clients choose what they execute");
}

// The clients stay, so the new policy must observe and act as the old one.
void Reload(const ServeVerbOptions& options, const PolicySpec& spec, serve::PolicyServer& server) {
  try {
    ServedPolicy served = LoadServed(options);
    if (!(served.info.spec.shape_meta == spec.shape_meta) ||
        !(served.info.spec.horizons == spec.horizons)) {
      throw CheckpointError(
          "the new checkpoint has another shape_meta or other horizons; start another server");
    }
    server.Replace(served.planner, served.info);
    core::LogInfo("serving checkpoint {}", served.info.checkpoint_sha256.substr(0, 12));
  } catch (const std::exception& exception) {
    core::LogWarning("the old checkpoint is still served: {}",
                     DescribeTorchFailure(exception).message);
  }
}

// A record of another server is never continued: its plans would be taken for those of this one.
std::shared_ptr<run::PlanRecordWriter> OpenRecord(const fs::path& folder) {
  if (folder.empty()) return nullptr;
  if (fs::exists(folder) && !fs::is_empty(folder)) {
    throw UsageError("--record {}: expected a new or empty folder", folder.string());
  }
  return std::make_shared<run::PlanRecordWriter>(folder);
}

int Serve(ServeVerbOptions options) {
  const std::atomic<bool>& stop = core::CatchStopSignals();
  std::atomic<bool>& reload = core::CatchReloadSignal();
  if (const char* const key = std::getenv("DP_BENCH_API_KEY")) options.server.net.api_key = key;
  options.server.batcher = {
      .max_wait = std::chrono::microseconds(static_cast<std::int64_t>(1e3 * options.max_wait_ms)),
      .max_queue = static_cast<std::size_t>(options.max_queue)};
  options.record = OpenRecord(options.record_folder);
  ServedPolicy served = LoadServed(options);
  options.micro_batch = served.info.micro_batch;  // also of the checkpoints after it
  auto protocol = serve::MakeProtocol(options.protocol, options.server.net.api_key);
  serve::KeyMap keys = protocol->DefaultKeys(served.info.spec);
  if (!options.keys.empty()) {
    keys = serve::KeyMap::FromConfig(config::LoadConfig({.config = options.keys}), keys);
  }
  if (options.protocol == "groot" && !options.server.net.host.starts_with("127.")) {
    core::LogWarning(
        "others can reach {}: groot's limits of memory and time hold only in a trusted network",
        options.server.net.host);
  }
  const serve::PolicyInfo info = served.info;
  WarnOfEnsemble(info.spec.horizons, *protocol);
  WarnOfChunking(served.config, info.spec.horizons, *protocol);
  serve::PolicyServer server(std::move(served.planner), info, std::move(protocol), keys,
                             options.server);
  core::PrintResult("{}\n", server.address());
  core::LostOutput();  // flushes the address, which scripts wait for
  core::LogInfo("serving {} (checkpoint {}) with the protocol {}, {} rows at once", info.name,
                info.checkpoint_sha256.substr(0, 12), options.protocol, info.micro_batch);
  while (!stop) {
    if (reload.exchange(false)) Reload(options, info.spec, server);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  server.Stop(kGrace);
  return 0;
}

void AddLimits(CLI::App* app, ServeVerbOptions* options) {
  AddNumber(
      app, "--micro-batch", &options->micro_batch, 0, 1 << 16,
      "Rows that are planned at once, whose number decides the low bits; 0: as in evaluations");
  AddNumber(app, "--max-wait-ms", &options->max_wait_ms, 0.0, 1000.0,
            "How long a batch waits for clients that asked a moment ago");
  AddNumber(app, "--max-queue", &options->max_queue, 1, 1 << 20,
            "Observations that may wait; more are refused as overloaded");
  AddNumber(app, "--max-clients", &options->server.net.max_clients, 1, 4096,
            "Connections; more are refused");
}

}  // namespace

Verb AddServe(CLI::App* app) {
  auto options = std::make_shared<ServeVerbOptions>();
  options->server.net.port = 8000;
  app->footer(kServeDetails);
  AddFolder(app, "--checkpoint", &options->checkpoint,
            "Checkpoint folder, or run folder (its best or else latest checkpoint)")
      ->required();
  AddWeightsOption(app, &options->weights);
  AddDeviceOption(app, &options->device);
  AddChoice(app, "--protocol", &options->protocol, {"openpi", "vla_eval", "groot", "starvla"},
            "What clients speak");
  app->add_option("--host", options->server.net.host,
                  "Address to listen on; 0.0.0.0 lets in other machines")
      ->capture_default_str();
  AddNumber(app, "--port", &options->server.net.port, 0, 65535,
            "0: one that is free; the address is printed");
  app->add_option("--keys", options->keys,
                  "JSON file: where clients' messages have the observations (docs/serving.md)");
  AddLimits(app, options.get());
  app->add_option("--log", options->server.log, "Append events to this file, as lines of JSON");
  app->add_option(
      "--record", options->record_folder,
      "Keep in this folder what the policy was asked and what it answered, up to 1 GiB, "
      "for dp_bench diff");
  AddPluginDirOption(app, &options->plugin_dirs);
  return [options] { return Serve(*options); };
}

}  // namespace dp_bench::app
