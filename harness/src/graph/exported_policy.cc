// See exported_policy.h.
#include "graph/exported_policy.h"

#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>

#include "core/atomic_file.h"
#include "graph/onnx.h"

namespace dp_bench::graph {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;
constexpr const char* kCondition = "condition";
constexpr const char* kPrediction = "prediction";

void WriteText(const std::filesystem::path& path, const std::string& bytes) {
  core::WriteNewFile(path, std::as_bytes(std::span(bytes)));
}

// Returns the name of the file.
std::string WriteGraph(const std::filesystem::path& folder, const std::string& name,
                       const TracedGraph& graph, const std::string& output, FileFormat format) {
  if (format == FileFormat::kOnnx) {
    WriteText(folder / (name + ".onnx"), ToOnnx(graph, output));
    return name + ".onnx";
  }
  std::ostringstream bytes;
  graph.module.save(bytes);
  WriteText(folder / (name + ".pt"), bytes.str());
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

void WriteExportedPolicy(const std::filesystem::path& folder, const PolicyGraphs& graphs,
                         FileFormat format) {
  Json sampler = SamplerAsJson(graphs);
  sampler["encoder"] = {{"file", WriteGraph(folder, "encoder", graphs.encoder, kCondition, format)},
                        {"inputs", InputNames(graphs.encoder)},
                        {"output", kCondition}};
  sampler["denoiser"] = {
      {"file", WriteGraph(folder, "denoiser", graphs.denoiser, kPrediction, format)},
      {"inputs", InputNames(graphs.denoiser)},
      {"output", kPrediction}};
  WriteText(folder / "sampler.json", sampler.dump(2) + "\n");
}

}  // namespace dp_bench::graph
