// See policy_graphs.h.
#include "graph/policy_graphs.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "dp_bench/error.h"
#include "dp_bench/policy/networks/diffusion_policy.h"

namespace dp_bench::graph {
namespace {

using torch::Tensor;

policy::DiffusionPolicy& AsDiffusionPolicy(Policy& policy) {
  policy::DiffusionPolicy* const diffusion = policy::DiffusionPolicy::Find(policy);
  if (diffusion != nullptr) return *diffusion;
  throw Error(ErrorCode::kConfig,
              "expected a policy that is a dp_bench::policy::DiffusionPolicy, found another one; "
              "its network is not known, so it has no graphs");
}

torch::ScalarType TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return torch::kUInt8;
    case DType::kUInt16:
      return torch::kUInt16;
    default:
      return torch::kFloat32;
  }
}

// "observation.state" -> "observation_state", unlike the names before.
std::string InputName(const std::string& key, std::set<std::string>* taken) {
  std::string name = key;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  if (std::isdigit(static_cast<unsigned char>(name.front())) != 0) name.insert(0, "_");
  while (!taken->insert(name).second) name += '_';
  return name;
}

std::vector<double> Numbers(const Tensor& tensor) {
  const Tensor numbers = tensor.to(torch::kCPU, torch::kFloat64).contiguous();
  return {numbers.const_data_ptr<double>(), numbers.const_data_ptr<double>() + numbers.numel()};
}

TracedGraph TraceEncoder(policy::DiffusionPolicy& policy, const std::vector<EncoderInput>& keys) {
  const std::int64_t n_obs_steps = policy.spec().horizons.n_obs_steps;
  std::vector<GraphInput> inputs;
  for (const EncoderInput& obs : keys) {
    GraphInput input = {.name = obs.input, .shape = {n_obs_steps}, .type = TypeOf(obs.key.dtype)};
    input.shape.insert(input.shape.end(), obs.key.shape.begin(), obs.key.shape.end());
    inputs.push_back(std::move(input));
  }
  return Trace("encoder", policy.module(), inputs, [&](const std::vector<Tensor>& tensors) {
    TensorMap obs;
    for (std::size_t i = 0; i < keys.size(); ++i) obs[keys[i].key.name] = tensors[i];
    return policy.EncodeObs(obs, /*augment=*/nullptr);
  });
}

TracedGraph TraceDenoiser(policy::DiffusionPolicy& policy) {
  const Horizons& horizons = policy.spec().horizons;
  const policy::DenoiserChannels& channels = policy.channels();
  std::vector<GraphInput> inputs = {
      {.name = "sample", .shape = {horizons.horizon, channels.sample}},
      {.name = "time", .shape = {}}};
  if (channels.cond > 0) {
    inputs.push_back({.name = "condition", .shape = {horizons.n_obs_steps, channels.cond}});
  }
  return Trace("denoiser", policy.module(), inputs, [&](const std::vector<Tensor>& tensors) {
    const Tensor& sample = tensors[0];
    const Tensor cond = channels.cond > 0
                            ? tensors[2]
                            : sample.new_zeros({sample.size(0), horizons.n_obs_steps, 0});
    return policy.denoiser().Forward(sample, tensors[1], cond, /*noise=*/nullptr);
  });
}

}  // namespace

PolicyGraphs MakePolicyGraphs(Policy& policy, const Normalizer& normalizer) {
  policy::DiffusionPolicy& diffusion = AsDiffusionPolicy(policy);
  diffusion.module().eval();
  PolicyGraphs graphs;
  graphs.spec = diffusion.spec();
  std::set<std::string> taken;
  for (const KeySpec& key : graphs.spec.shape_meta.obs) {
    graphs.observations.push_back({.key = key, .input = InputName(key.name, &taken)});
  }
  graphs.encoder = TraceEncoder(diffusion, graphs.observations);
  graphs.denoiser = TraceDenoiser(diffusion);
  graphs.sampling = diffusion.sampling_plan();
  const std::int64_t action_dim = graphs.spec.shape_meta.action_dim();
  graphs.sample_dim = diffusion.channels().sample;
  graphs.condition_dim =
      graphs.sampling.inpaints_obs ? graphs.sample_dim - action_dim : diffusion.channels().cond;
  const Normalizer::Field& field = normalizer.fields().find("action")->second;
  graphs.action_scale = Numbers(field.scale);
  graphs.action_offset = Numbers(field.offset);
  return graphs;
}

}  // namespace dp_bench::graph
