// See graph_export.h.
#include "interop/graph_export.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "dp_bench/tensor.h"
#include "graph/graph_runtime.h"
#include "planner/create_from_checkpoint.h"

namespace dp_bench::interop {
namespace {

using torch::Tensor;

// Sampling may amplify rounding, so this is far above it. A wrong graph differs by much more.
constexpr double kLargestDifference = 1e-3;

NoiseSource NoiseOf(std::int64_t rows, std::uint64_t major) {
  std::vector<NoiseKey> keys;
  for (std::int64_t i = 0; i < rows; ++i) {
    keys.push_back({.seed = static_cast<std::uint64_t>(i), .major = major});
  }
  return NoiseSource(std::move(keys));
}

// Within the range of what the policy was trained on.
TensorMap RandomObs(const PolicySpec& spec, const Normalizer& normalizer, std::int64_t rows) {
  NoiseSource noise = NoiseOf(rows, /*major=*/1);
  TensorMap obs;
  for (const KeySpec& key : spec.shape_meta.obs) {
    Shape shape = {rows, spec.horizons.n_obs_steps};
    shape.insert(shape.end(), key.shape.begin(), key.shape.end());
    const Tensor uniform = noise.Uniform(StreamId::kEnvStart, shape);
    Tensor& value = obs[key.name];
    if (key.type == KeyType::kRgb) {
      value = (uniform * 255.0).to(torch::kUInt8);
    } else if (key.dtype == DType::kUInt16) {
      value = (uniform * 2000.0).to(torch::kUInt16);
    } else {
      value = normalizer.Unnormalize(key.name, uniform * 2.0 - 1.0);
    }
  }
  return obs;
}

double DifferenceOfPlans(Policy& policy, const graph::PolicyGraphs& graphs,
                         graph::GraphRuntime& runtime, const Normalizer& normalizer,
                         std::int64_t rows) {
  const TensorMap obs = RandomObs(policy.spec(), normalizer, rows);
  NoiseSource noise = NoiseOf(rows, /*major=*/0);
  const Tensor planned = policy.PredictAction(obs, noise);
  NoiseSource again = NoiseOf(rows, /*major=*/0);
  const Tensor by_graphs = graph::PredictWithGraphs(graphs, runtime, obs, again);
  const Tensor difference =
      normalizer.Normalize("action", planned) - normalizer.Normalize("action", by_graphs);
  return difference.abs().max().item<double>();
}

}  // namespace

double ExportPolicyGraphs(const run::Checkpoint& checkpoint, plugin::PluginCatalogue& catalogue,
                          GraphFormat format, const std::filesystem::path& output) {
  const planner::Weights weights = planner::EvaluatedWeights(checkpoint);
  const auto policy = planner::CreateFromCheckpoint(checkpoint.folder(), catalogue, weights).policy;
  const Normalizer normalizer = planner::NormalizerOf(checkpoint);
  const graph::PolicyGraphs graphs = graph::MakePolicyGraphs(*policy, normalizer);
  const auto runtime = graph::MakeTorchScriptRuntime(graphs);
  double largest = 0.0;
  for (const std::int64_t rows : {1, 3}) {
    largest = std::max(largest, DifferenceOfPlans(*policy, graphs, *runtime, normalizer, rows));
  }
  if (!(largest <= kLargestDifference)) {
    throw NumericError(
        "the graphs of this policy plan other actions: expected a difference of at most {} in "
        "normalized actions, found {}",
        kLargestDifference, largest);
  }
  core::AtomicFolder folder(output);
  graph::WriteExportedPolicy(
      folder.temporary(), graphs,
      format == GraphFormat::kOnnx ? graph::FileFormat::kOnnx : graph::FileFormat::kTorchScript);
  folder.Commit();
  return largest;
}

}  // namespace dp_bench::interop
