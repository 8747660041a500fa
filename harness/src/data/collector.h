// Collects episodes of an env's expert into a dataset on disk. Its content depends only on the
// origin and the number of episodes: not on workers, their order, or interruptions.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/replay_writer.h"
#include "dp_bench/config.h"
#include "dp_bench/env.h"
#include "plugin/catalogue.h"
#include "plugin/obs_memory.h"

namespace dp_bench::data {

// The config section "collect": the number of demonstrations of an env's expert, and which ones.

/// A policy acts first, then the expert takes over, so the demonstrations begin where the policy
/// leads (as the interventions of Kelly et al. 2019, "HG-DAgger").
struct TakeoverConfig {
  std::filesystem::path checkpoint;  // of the policy; or its run folder
  int max_steps = 100;  // the policy acts for 0 to this many steps, drawn anew for each episode

  static TakeoverConfig FromConfig(const Config& config);
};

struct CollectConfig {
  int n_episodes = 200;
  std::uint64_t start_seed = 1'000'000;
  double action_noise = 0.0;
  std::optional<std::vector<double>> action_noise_std;
  bool keep_failures = false;
  int n_steps_after_success = 0;
  int n_workers = 0;
  std::optional<TakeoverConfig> takeover;

  /// Throws Error{kConfig} for values out of range, or both kinds of noise.
  static CollectConfig FromConfig(const Config& config);

  /// Standard deviation of the noise on each dimension of the action, [Da]. Throws Error{kConfig}
  /// when `action_noise_std` has another size.
  std::vector<double> NoiseStd(const EnvSpec& env) const;
};

// One env instance whose expert plays one episode after another.

/// Acts before the expert takes over. Used by one thread.
class FirstActor {
 public:
  virtual ~FirstActor() = default;
  virtual void Reset(std::uint64_t seed) = 0;
  /// `obs`: the env's observation, one value per key in its order. The action [Da] is valid until
  /// the next call.
  virtual std::span<const float> Act(std::span<const std::span<const std::byte>> obs) = 0;
};

/// The result of one seed.
struct ExpertEpisode {
  std::uint64_t seed = 0;
  ReplayEpisode steps;  // (observation, the action issued for it)
  bool success = false;
  bool is_whole = false;  // played to its end; nothing was thrown
  std::string failure;    // why it did not succeed
};

/// Shared by all runners of a collection; must not change while they exist.
struct ExpertPlan {
  std::function<std::unique_ptr<Env>()> env_factory;  // envs with an expert
  EnvSpec env;
  std::vector<KeySpec> keys;      // what is recorded: the env's obs, then its action
  std::vector<double> noise_std;  // [Da]
  /// Acts for 0 to `max_first_steps` steps; none: the expert plays whole episodes.
  std::function<std::unique_ptr<FirstActor>()> first_actor_factory = {};
  int max_first_steps = 0;
  int n_steps_after_success = 0;
  const std::atomic<bool>* stop = nullptr;
};

/// Used by one thread at a time.
class ExpertRunner {
 public:
  /// `plan` must outlive the runner.
  explicit ExpertRunner(const ExpertPlan& plan);

  /// Plays until the env terminates or reports success, or for max_steps. With noise, the env
  /// executes a perturbed action, but the expert's own action is recorded, so that the data show
  /// how to recover (Laskey et al. 2017, "DART: Noise Injection for Robust Imitation Learning").
  /// Steps of the first actor are not recorded; if it succeeds alone, the episode failed. An
  /// exception of env or expert becomes the reason of a failure. Returns nothing if `stop` ended
  /// the episode.
  std::optional<ExpertEpisode> Run(std::uint64_t seed);

 private:
  bool Play(ExpertEpisode* episode);
  int DrawTakeover(std::uint64_t seed);
  std::span<const float> ChooseAction(ExpertEpisode* episode, int step, int takeover);
  void Record(ReplayEpisode* steps);
  std::span<const float> Perturb(std::uint64_t seed, std::int64_t step);

  const ExpertPlan& plan_;
  std::unique_ptr<Env> env_;
  std::unique_ptr<FirstActor> first_actor_;
  plugin::ObsMemory obs_;
  std::vector<float> action_;    // [Da], the expert's
  std::vector<float> executed_;  // [Da]
};

struct CollectRequest {
  std::function<std::unique_ptr<Env>()> env_factory;  // called by every worker; env has an expert
  std::function<std::unique_ptr<FirstActor>()> first_actor_factory = {};  // for config.takeover
  CollectConfig config;
  nlohmann::json origin;         // see CollectionOrigin
  std::string env_sha256;        // of the env plugin's file; empty: not known, not compared
  std::filesystem::path output;  // a new folder, or one to continue
  const std::atomic<bool>* stop = nullptr;
  double commit_seconds = 2.0;  // a kill loses at most this much work
};

struct CollectProgress {
  int n_episodes = 0;  // kept
  int n_wanted = 0;
  int n_failed = 0;
  std::int64_t n_steps = 0;
};

using CollectProgressFn = std::function<void(const CollectProgress&)>;

struct CollectReport {
  int n_episodes = 0;  // in the dataset
  int n_before = 0;    // of these, in it before
  std::int64_t n_steps = 0;
  std::vector<SeedFailure> failures;  // of seeds that are not in the dataset
  double wall_s = 0.0;
  bool is_interrupted = false;
  bool is_of_another_env = false;  // another build of the env plugin made these episodes
};

/// The report of a folder that already holds all requested episodes; nothing if some are missing.
std::optional<CollectReport> FindCollection(const CollectRequest& request);

/// Collects until the folder holds at least `n_episodes`. Seeds are tried in order; failed ones are
/// skipped and listed. Throws Error{kEnv} if most seeds fail; the episodes collected so far are
/// kept. Throws Error{kUsage} if the folder holds episodes of another build of the env plugin: its
/// expert may be another one.
CollectReport Collect(const CollectRequest& request, const CollectProgressFn& progress = {});

// The origin of a collected dataset. Datasets with equal origins hold the same episodes.

/// `env_section`: {"plugin", "params"} with all defaults, as JSON text. The numbers of episodes and
/// workers are not part of it, because they do not change the first n episodes.
nlohmann::json CollectionOrigin(const std::string& env_section, const std::string& env_version,
                                const CollectConfig& config);

/// data/<name>-<hash>.zarr: where `run` looks for `n_episodes` of this origin, or else collects
/// them.
std::filesystem::path CollectionPath(const std::string& name, const nlohmann::json& origin,
                                     int n_episodes);

/// Throws Error{kUsage} if `env` has no expert, with the names of the env plugins that have one.
void RequireExpert(const EnvSpec& env, const std::string& name, plugin::PluginCatalogue& catalogue);

}  // namespace dp_bench::data
