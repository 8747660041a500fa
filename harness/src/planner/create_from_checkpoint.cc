#include "planner/create_from_checkpoint.h"

#include <utility>

#include "core/errors.h"
#include "dp_bench/config_keys.h"
#include "graph/graph_policy.h"
#include "policy/guarded_policy.h"

namespace dp_bench::planner {

WeightFormat ReadWeightFormat(const Config& policy) {
  WeightFormat weights = WeightFormat::kFloat32;
  ConfigKeys(policy).Choice(
      "weights", &weights,
      {{"float32", WeightFormat::kFloat32},
       {"bf16", WeightFormat::kBf16},
       {"int8", WeightFormat::kInt8}},
      "what plans are computed with on the CPU; training has float32 weights");
  return weights;
}

std::unique_ptr<Policy> CreatePolicy(const Config& config, plugin::PluginCatalogue& catalogue,
                                     const EnvSpec& env) {
  const PolicySpec spec = {.shape_meta = ShapeMeta::FromConfig(config.Sub("shape_meta")),
                           .horizons = Horizons::FromConfig(config),
                           .instruction = env.instruction,
                           .action_low = env.action_low,
                           .action_high = env.action_high};
  const Config policy = config.Sub("policy");
  std::unique_ptr<Policy> created =
      catalogue.Create<Policy>(policy.Get<std::string>("plugin"), policy.Sub("params"), spec);
  created->SetWeightFormat(ReadWeightFormat(policy));
  return created;
}

std::unique_ptr<Policy> CreateFromCheckpoint(const run::Checkpoint& checkpoint,
                                             const Config& config,
                                             plugin::PluginCatalogue& catalogue, Weights weights,
                                             torch::Device device) {
  std::unique_ptr<Policy> policy = CreatePolicy(config, catalogue);
  policy->module().to(device);
  LoadPolicyWeights(checkpoint, *policy, weights);
  policy->module().eval();
  const graph::Backend backend = graph::ReadBackend(config.Sub("policy"));
  if (backend != graph::Backend::kTorch &&
      ReadWeightFormat(config.Sub("policy")) != WeightFormat::kFloat32) {
    throw ConfigError(
        "policy.weights: expected float32 with graphs (policy.backend), which compute in float32, "
        "found {}",
        config.Sub("policy").Get<std::string>("weights"));
  }
  return graph::WithBackend(backend, std::move(policy), NormalizerOf(checkpoint));
}

PolicyFromCheckpoint CreateFromCheckpoint(const std::filesystem::path& folder,
                                          plugin::PluginCatalogue& catalogue, Weights weights) {
  const run::Checkpoint checkpoint = run::Checkpoint::Open(folder);
  const Config config = Config::FromJson(checkpoint.config(), (folder / "config.json").string());
  return {.config = config, .policy = CreateFromCheckpoint(checkpoint, config, catalogue, weights)};
}

}  // namespace dp_bench::planner
