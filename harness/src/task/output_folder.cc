#include "task/output_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "core/console.h"
#include "core/errors.h"
#include "core/gpu_name.h"
#include "core/json.h"
#include "core/machine.h"
#include "core/stop_signal.h"
#include "core/system_error.h"
#include "data/replay_writer.h"
#include "dp_bench/build_id.h"
#include "graph/graph_policy.h"
#include "rollout/certify_determinism.h"
#include "run/manifest.h"
#include "run/run_contents.h"
#include "run/run_files.h"

namespace dp_bench::task {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxManifestBytes = std::size_t{16} << 20;

bool HasImages(const ShapeMeta& shapes) {
  return std::ranges::any_of(shapes.obs, [](const KeySpec& key) { return key.is_image(); });
}

// Of the policy: "cpu", the model of LibTorch's GPU, or the name of another backend.
std::string PlanningDevice(const Experiment& experiment) {
  const graph::Backend backend = graph::ReadBackend(experiment.config().Sub("policy"));
  if (backend != graph::Backend::kTorch) return std::string(graph::Name(backend));
  const c10::Device device = experiment.device();
  const std::optional<std::string> gpu =
      device.is_cuda() ? core::GpuName(std::max<int>(0, device.index())) : std::nullopt;
  return gpu.value_or(device.str());
}

// "version 1.0.0, sha256 973b6ec0eaa4".
std::string DescribeFile(const nlohmann::json& plugin) {
  const auto text = [&plugin](const char* key) {
    const nlohmann::json value = plugin.value(key, nlohmann::json());
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  return fmt::format("version {}, sha256 {:.12}", text("version"), text("sha256"));
}

std::vector<std::string> PluginsOf(const Experiment& experiment, PluginKind kind) {
  if (kind == PluginKind::kDataset) return experiment.dataset_plugins();
  if (kind == PluginKind::kEnv && !experiment.has_env()) return {};
  return {experiment.config().Sub(plugin::KindName(kind)).Get<std::string>("plugin")};
}

// The entry of a manifest's list of plugins; null if it has none.
nlohmann::json FindPlugin(const nlohmann::json& manifest, const std::string& kind,
                          const std::string& name) {
  const nlohmann::json plugins = manifest.value("plugins", nlohmann::json::array());
  for (const nlohmann::json& plugin : plugins) {
    if (!plugin.is_object()) continue;
    if (plugin.value("kind", nlohmann::json()) == kind &&
        plugin.value("name", nlohmann::json()) == name)
      return plugin;
  }
  return nullptr;
}

// As the run of a checkpoint names them; none outside of a run folder.
std::vector<run::SeedRange> DemonstrationsOf(const fs::path& checkpoint) {
  const fs::path folder = run::FindRunOf(checkpoint);
  if (!fs::is_regular_file(folder / run::kManifestFile)) return {};
  const auto seeds = run::SeedUseOf(run::ReadRunManifest(folder));
  return seeds ? seeds->demonstrations : std::vector<run::SeedRange>();
}

}  // namespace

OutputFolder::OutputFolder(fs::path path, OldRun old_run, core::Communicator& ranks)
    : ranks_(ranks), path_(std::move(path)), old_run_(old_run) {
  if (!ranks_.is_root()) return;
  try {
    Make();
    lock_.emplace(path_);
    if (old_run_ == OldRun::kContinue) return;
    run::RequireNoRun(path_, old_run_ != OldRun::kRefuse, old_run_ == OldRun::kOverwrite);
  } catch (...) {
    lock_.reset();
    RemoveMade();
    throw;
  }
}

OutputFolder::OutputFolder(const Experiment& experiment, core::Communicator& ranks)
    : ranks_(ranks), old_run_(OldRun::kRefuse) {
  if (ranks_.is_root()) {
    // if two runs start in the same second, the second one tries the next name
    for (int n = 1; made_.empty() || made_.back() != path_; ++n) {
      path_ = RunFolderName(experiment, n);
      Make();
    }
    lock_.emplace(path_);
  }
  path_ = ranks_.FromRoot(path_.string());
}

OutputFolder::~OutputFolder() {
  lock_.reset();
  if (!is_begun_) RemoveMade();
}

void OutputFolder::Begin() {
  is_begun_ = true;
  core::PrintResult("run folder: {}\n", path_.string());
  if (ranks_.is_root() && old_run_ == OldRun::kOverwrite) run::RemoveEvaluation(path_);
  ranks_.Barrier();
}

void OutputFolder::Make() {
  fs::path existing = path_;
  std::vector<fs::path> missing;
  while (!existing.empty() && !fs::exists(existing)) {
    missing.insert(missing.begin(), existing);
    existing = existing.parent_path();
  }
  for (const fs::path& folder : missing) {
    std::error_code error;
    if (fs::create_directory(folder, error)) made_.push_back(folder);
    if (error) core::ThrowSystemError("make the folder", folder, error);
  }
}

void OutputFolder::RemoveMade() {
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) {
    std::error_code not_empty;  // another process uses it
    fs::remove(*folder, not_empty);
  }
  made_.clear();
}

std::string MakeManifest(const Experiment& experiment, int n_ranks,
                         const std::optional<run::CheckpointChoice>& checkpoint,
                         const std::string& provenance) {
  nlohmann::json plugins = nlohmann::json::array();
  for (const PluginKind kind : {PluginKind::kPolicy, PluginKind::kEnv, PluginKind::kDataset}) {
    for (const std::string& name : PluginsOf(experiment, kind)) {
      const auto info = experiment.catalogue().FindIfPresent(kind, name);
      if (!info) continue;  // an evaluation does not need the reader of the training's dataset
      plugins.push_back({{"kind", plugin::KindName(kind)},
                         {"name", info->name},
                         {"version", info->version},
                         {"file", info->file.filename().string()},
                         {"sha256", info->Sha256()}});
    }
  }
  utsname system{};
  uname(&system);
  nlohmann::json manifest = {
      {"dp_bench", kVersion},
      {"core_build_id", kCoreBuildId},
      {"torch_build_id", kTorchBuildId},
      {"plugins", plugins},
      {run::kOutcomeClassKey,
       run::OutcomeClass({.device = PlanningDevice(experiment),
                          .cpu = core::ProcessorName(),
                          .has_avx2_and_fma = core::HasAvx2AndFma(),
                          .has_images = HasImages(experiment.spec().shape_meta)})},
      {"machine",
       {{"cpu", core::ProcessorName()},
        {"ranks", n_ranks},
        {"threads", std::thread::hardware_concurrency()},
        {"system", std::string(system.sysname) + " " + system.release}}},
  };
  const auto config = nlohmann::json::parse(experiment.config().ToJson());
  run::SeedUse seeds = {.report = run::ReportSeeds(config),
                        .selection = run::SelectionSeeds(config)};
  if (checkpoint && checkpoint->folder.empty()) {
    seeds.selection = {};
    manifest["checkpoint"] = nullptr;
  } else if (checkpoint) {
    const auto trained =
        core::ReadJsonFile(checkpoint->folder / run::kConfigFile, kMaxManifestBytes);
    seeds.selection = run::SelectionSeeds(trained);
    if (data::AreOfOneTask(core::ValueAt(trained, "/env"), core::ValueAt(config, "/env"))) {
      seeds.demonstrations = DemonstrationsOf(checkpoint->folder);
    }
    manifest["checkpoint"] = {
        {"folder", std::filesystem::absolute(checkpoint->folder).lexically_normal().string()},
        {"weights", checkpoint->weights},
        {"sha256", run::CheckpointHash(checkpoint->folder)}};
  }
  if (experiment.has_env()) {
    manifest["env"] = {{"moves_without_actions", experiment.DescribeEnv().moves_without_actions}};
  }
  if (!provenance.empty()) manifest["policy"] = nlohmann::json::parse(provenance);
  manifest["seeds"] = run::ToJson(seeds);
  return manifest.dump(2) + "\n";
}

std::string WithDemonstrations(const Experiment& experiment, const std::string& manifest) {
  std::optional<run::SeedUse> use = run::SeedUseOf(manifest);
  if (!experiment.has_env() || !use) return manifest;
  const auto env = nlohmann::json::parse(experiment.config().Sub("env").ToJson());
  std::vector<std::uint64_t> seeds;
  for (const fs::path& dataset : experiment.dataset_paths()) {
    std::ranges::copy(data::SeedsOfEpisodes(dataset, env), std::back_inserter(seeds));
  }
  use->demonstrations = run::RangesOf(std::move(seeds));
  const std::string warning = run::DemonstrationText(*use);
  if (!warning.empty()) core::LogWarning(warning);
  nlohmann::json json = nlohmann::json::parse(manifest);
  json["seeds"] = run::ToJson(*use);
  return json.dump(2) + "\n";
}

std::string WithCertificate(const Experiment& experiment, const std::string& manifest) {
  const control::EnvRunnerConfig config = experiment.runner();
  if (!config.certify) return manifest;
  core::ReleaseStopSignals();  // it may take minutes, and there is nothing yet that could be
                               // resumed
  nlohmann::json json = nlohmann::json::parse(manifest);
  try {
    const run::DeterminismCertificate certificate =
        rollout::CertifyDeterminism([&] { return experiment.CreateEnv(); }, config.test_start_seed);
    if (certificate.difference) {
      core::LogWarning(run::Describe(certificate) + "; comparisons treat its episodes as unpaired");
    }
    json[run::kDeterminismKey] = run::ToJson(certificate);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kEnv && error.code() != ErrorCode::kNumeric) throw;
    core::LogWarning("the env has no certificate, because it broke while it was examined: {}",
                     error.what());
  }
  core::CatchStopSignals();
  return json.dump(2) + "\n";
}

void WarnOfChangedPlugins(const std::filesystem::path& checkpoint, const std::string& manifest) {
  const std::filesystem::path file = run::FindRunOf(checkpoint) / run::kManifestFile;
  if (!std::filesystem::is_regular_file(file)) return;
  const nlohmann::json trained = core::ReadJsonFile(file, kMaxManifestBytes);
  if (!trained.is_object()) return;
  const nlohmann::json now = nlohmann::json::parse(manifest);
  for (const nlohmann::json& plugin : now.at("plugins")) {
    const auto kind = plugin.at("kind").get<std::string>();
    const auto name = plugin.at("name").get<std::string>();
    const nlohmann::json before = FindPlugin(trained, kind, name);
    if (kind == "dataset" || before.is_null() ||
        before.value("sha256", nlohmann::json()) == plugin.at("sha256")) {
      continue;
    }
    core::LogWarning(
        "the {} plugin '{}' changed since the training: {} then, {} now. The results may differ "
        "from those of the training for this reason alone.",
        kind, name, DescribeFile(before), DescribeFile(plugin));
  }
}

std::string WriteRunHead(const std::filesystem::path& folder, const std::string& manifest,
                         const Config& config, core::Communicator& ranks) {
  const std::string text = config.ToJson() + "\n";
  std::string with_id = run::WithRunId(manifest, text);
  if (ranks.is_root()) run::WriteRunHead(folder, with_id, text);
  return with_id;
}

std::string RequireSameManifest(const std::filesystem::path& folder, const std::string& manifest) {
  std::string found = run::ReadRunManifest(folder);
  auto begun = run::OutcomePart(
      core::ParseJson(run::WithoutRunId(found), (folder / run::kManifestFile).string()));
  auto wanted = run::OutcomePart(nlohmann::json::parse(manifest));
  for (auto* json : {&begun, &wanted}) json->erase("seeds");  // the config has them
  const auto before = begun.flatten();
  const auto now = wanted.flatten();
  std::vector<std::string> places;
  for (const auto& change : nlohmann::json::diff(before, now)) {
    // without the leading slash; an empty manifest gives a key without one
    const nlohmann::json::json_pointer path_in_flat(change.at("path").get<std::string>());
    places.push_back(path_in_flat.empty() ? ""
                                          : path_in_flat.back().substr(std::min<std::size_t>(
                                                1, path_in_flat.back().size())));
  }
  if (places.empty()) return found;
  throw UsageError(
      "'{}' {} {}; its remaining episodes would not match the others. Start "
      "over in another --output folder.",
      folder.string(), run::kBegunWithAnother, fmt::join(places, ", "));
}

}  // namespace dp_bench::task
