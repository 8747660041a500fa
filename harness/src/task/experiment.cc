#include "task/experiment.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "config/name.h"
#include "core/errors.h"
#include "core/json.h"
#include "dp_bench/policy.h"
#include "graph/graph_policy.h"
#include "planner/create_from_checkpoint.h"
#include "policy/device.h"
#include "run/run_files.h"
#include "train/fit_normalizer.h"

namespace dp_bench::task {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnsembleKey = "temporal_ensemble_coeff";

// Unlike a task alone, an experiment needs a policy.
const ExperimentOptions& RequirePolicy(const ExperimentOptions& options) {
  if (options.config.empty() &&
      (options.policy.empty() || (options.env.empty() && options.dataset.empty()))) {
    throw UsageError(
        "nothing to run: give --policy and --env, or --config (see --help); train needs only "
        "--policy and --dataset");
  }
  return options;
}

std::string PolicyName(const Config& config) {
  const Config policy = config.Sub("policy");
  return config::RequireName(policy.Get<std::string>("plugin"), policy.Where("plugin"));
}

// `name` is from the command line, which checked it, or from the manifest of a run folder.
planner::Weights WeightsOf(const std::string& name) {
  if (name == "ema") return planner::Weights::kEma;
  if (name == "model") return planner::Weights::kModel;
  throw DataError(
      "the manifest.json of the run folder names the weights '{}'; expected 'ema' or 'model'. Was "
      "the file edited?",
      name);
}

// Graphs are made of trained weights.
void RequireTorch(const Config& policy) {
  if (graph::ReadBackend(policy) == graph::Backend::kTorch) return;
  throw ConfigError(
      "{}: graphs plan with the weights of a checkpoint; expected torch here. Give it to dp_bench "
      "eval --checkpoint",
      policy.Where("backend"));
}

// A server that answers with chunks leaves temporal ensembling to its client. The user must say
// whether to do it, because without it the policy is another one.
void RequireStatedEnsemble(const config::ConfigDocument& config, const Policy& policy) {
  const nlohmann::json said =
      nlohmann::json::parse(policy.Provenance(), nullptr, /*allow_exceptions=*/false);
  const nlohmann::json coeff =
      core::ValueAt(said, fmt::format("/metadata/dp_bench/{}", kEnsembleKey));
  if (!coeff.is_number() || config.IsGiven(fmt::format("/{}", kEnsembleKey))) return;
  throw ConfigError(
      "the server's policy has temporal ensembling, which its client must do; set {0}={1} and "
      "n_action_steps={2} to play it as its checkpoint, or {0}=null to execute its plans as they "
      "are",
      kEnsembleKey, coeff.dump(), core::ValueAt(said, "/metadata/dp_bench/n_action_steps").dump());
}

}  // namespace

Experiment::Experiment(const ExperimentOptions& options)
    : Task(RequirePolicy(options)),
      spec_{.shape_meta = shape_meta(), .horizons = Horizons::FromConfig(config())} {
  PolicyName(config());  // throws if it is not a valid name
}

std::unique_ptr<Policy> Experiment::CreatePolicy() const {
  RequireTorch(config().Sub("policy"));
  return dp_bench::planner::CreatePolicy(config(), catalogue());
}

std::unique_ptr<Policy> Experiment::CreateWithoutWeights() const {
  RequireTorch(config().Sub("policy"));
  RequireShapesOfEnv();
  std::unique_ptr<Policy> policy =
      planner::CreatePolicy(config(), catalogue(), has_env() ? DescribeEnv() : EnvSpec());
  if (policy->is_trainable()) {
    throw UsageError("policy plugin '{}' has weights: give --checkpoint", PolicyName(config()));
  }
  RequireStatedEnsemble(document(), *policy);
  policy->module().to(device());
  policy->module().eval();
  return policy;
}

Normalizer Experiment::NeutralNormalizer() const {
  return train::NeutralNormalizer(spec_.shape_meta,
                                  train::NormalizerConfig::FromConfig(config().Sub("normalizer")));
}

std::unique_ptr<Policy> Experiment::LoadTeacher() const {
  const auto section = training().teacher;
  if (!section) return nullptr;
  const run::Checkpoint checkpoint = run::Checkpoint::Open(section->path);
  const Config of_teacher =
      Config::FromJson(checkpoint.config(), (section->path / run::kConfigFile).string());
  std::unique_ptr<Policy> teacher = planner::CreateFromCheckpoint(
      checkpoint, of_teacher, catalogue(), WeightsOf(section->weights), device());
  for (torch::Tensor& parameter : teacher->module().parameters()) parameter.requires_grad_(false);
  return teacher;
}

torch::Device Experiment::device() const {
  return policy::OpenDevice(config().Sub("training").Get<std::string>("device", "cpu"));
}

std::unique_ptr<Policy> Experiment::LoadPolicy(const run::Checkpoint& checkpoint,
                                               const std::string& weights) const {
  RequireShapesOfEnv();
  return planner::CreateFromCheckpoint(checkpoint, config(), catalogue(), WeightsOf(weights),
                                       device());
}

std::unique_ptr<Policy> Experiment::LoadPolicy(const fs::path& checkpoint,
                                               const std::string& weights) const {
  if (checkpoint.empty()) return CreateWithoutWeights();
  return LoadPolicy(run::Checkpoint::Open(checkpoint), weights);
}

fs::path RunFolderName(const Experiment& experiment, int n) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  const std::string stem = fmt::format("runs/{:%Y-%m-%d/%H-%M-%S}_{}_{}", local,
                                       PolicyName(experiment.config()), experiment.name());
  return n == 1 ? stem : fmt::format("{}_{}", stem, n);
}

}  // namespace dp_bench::task
