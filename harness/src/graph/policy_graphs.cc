// See policy_graphs.h.
#include "graph/policy_graphs.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "dp_bench/policy/networks/diffusion_policy.h"
#include "graph/onnx.h"

namespace dp_bench::graph {
namespace {

using torch::Tensor;
using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;

policy::DiffusionPolicy& AsDiffusionPolicy(Policy& policy) {
  policy::DiffusionPolicy* const diffusion = policy::DiffusionPolicy::Find(policy);
  if (diffusion != nullptr) return *diffusion;
  throw ConfigError(
      "expected a policy that is a dp_bench::policy::DiffusionPolicy, found another one; its "
      "network is not known, so it has no graphs");
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
    GraphInput input = {
        .name = obs.input, .shape = {n_obs_steps}, .type = ToScalarType(obs.key.dtype)};
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

// Returns the name of the file.
std::string WriteGraph(const std::filesystem::path& folder, const std::string& name,
                       const TracedGraph& graph, const std::string& output, FileFormat format) {
  if (format == FileFormat::kOnnx) {
    core::WriteNewFile(folder / (name + ".onnx"), ToOnnx(graph, output));
    return name + ".onnx";
  }
  std::ostringstream bytes;
  graph.module.save(bytes);
  core::WriteNewFile(folder / (name + ".pt"), bytes.str());
  return name + ".pt";
}

Json InputNames(const TracedGraph& graph) {
  Json names = Json::array();
  for (const GraphInput& input : graph.inputs) names.push_back(input.name);
  return names;
}

Json ObservationsOf(const PolicyGraphs& graphs) {
  Json observations = Json::array();
  for (const EncoderInput& obs : graphs.observations) {
    Json shape = {graphs.spec.horizons.n_obs_steps};
    for (const std::int64_t size : obs.key.shape) shape.push_back(size);
    observations.push_back({{"key", obs.key.name},
                            {"input", obs.input},
                            {"type", Name(obs.key.type)},
                            {"dtype", Name(obs.key.dtype)},
                            {"shape", shape}});
  }
  return observations;
}

Json StepAsJson(const policy::SamplerStep& step) {
  return {{"time", step.time},
          {"x0", {{"sample", step.x0_from_sample}, {"output", step.x0_from_output}}},
          {"clip", step.clip ? Json(*step.clip) : Json(nullptr)},
          {"next",
           {{"x0", step.next_from_x0},
            {"sample", step.next_from_sample},
            {"output", step.next_from_output},
            {"last_x0", step.next_from_last_x0},
            {"last_sample", step.next_from_last_sample},
            {"noise", step.noise}}}};
}

Json SamplerAsJson(const PolicyGraphs& graphs) {
  const Horizons& horizons = graphs.spec.horizons;
  Json steps = Json::array();
  for (const policy::SamplerStep& step : graphs.sampling.steps) steps.push_back(StepAsJson(step));
  return {{"format", "dp_bench exported policy"},
          {"version", kFormatVersion},
          {"observations", ObservationsOf(graphs)},
          {"action",
           {{"dim", graphs.spec.shape_meta.action_dim()},
            {"first_step", horizons.n_obs_steps - 1},
            {"n_steps", horizons.n_action_steps},
            {"scale", graphs.action_scale},
            {"offset", graphs.action_offset}}},
          {"sample",
           {{"shape", {horizons.horizon, graphs.sample_dim}},
            {"starts_from", graphs.sampling.starts_from_noise ? "noise" : "zeros"},
            {"inpaints_condition", graphs.sampling.inpaints_obs}}},
          {"steps", steps}};
}

}  // namespace

PolicyGraphs MakePolicyGraphs(Policy& policy, const Normalizer& normalizer) {
  policy::DiffusionPolicy& diffusion = AsDiffusionPolicy(policy);
  diffusion.module().eval();
  if (diffusion.max_prefix() > 0) {
    throw ConfigError(
        "policy.params.max_prefix: expected 0, found {}: an exported policy cannot be given a "
        "prefix",
        diffusion.max_prefix());
  }
  PolicyGraphs graphs;
  graphs.spec = diffusion.spec();
  std::set<std::string> taken;
  for (const KeySpec& key : graphs.spec.shape_meta.obs) {
    graphs.observations.push_back({.key = key, .input = InputName(key.name, &taken)});
  }
  graphs.encoder = TraceEncoder(diffusion, graphs.observations);
  graphs.denoiser = TraceDenoiser(diffusion);
  graphs.sampling = diffusion.sampling_plan();
  graphs.sample_dim = diffusion.channels().sample;
  const Normalizer::Field& field = normalizer.fields().find("action")->second;
  graphs.action_scale = Numbers(field.scale);
  graphs.action_offset = Numbers(field.offset);
  return graphs;
}

void WriteExportedPolicy(const std::filesystem::path& folder, const PolicyGraphs& graphs,
                         FileFormat format) {
  Json sampler = SamplerAsJson(graphs);
  const auto write = [&](const char* name, const TracedGraph& graph, const char* output) {
    sampler[name] = {{"file", WriteGraph(folder, name, graph, output, format)},
                     {"inputs", InputNames(graph)},
                     {"output", output}};
  };
  write("encoder", graphs.encoder, "condition");
  write("denoiser", graphs.denoiser, "prediction");
  core::WriteNewFile(folder / "sampler.json", sampler.dump(2) + "\n");
}

}  // namespace dp_bench::graph
