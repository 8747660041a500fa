// See trace.h.
#include "graph/trace.h"

#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "core/errors.h"

namespace dp_bench::graph {
namespace {

namespace jit = torch::jit;
using torch::Tensor;

// Two sizes that no layer has by accident.
constexpr std::int64_t kBatch = 5;
constexpr std::int64_t kOtherBatch = 7;

// TorchScript's attributes are identifiers.
std::string Identifier(std::string name) {
  std::ranges::replace(name, '.', '_');
  return name;
}

struct Recording {
  jit::Module module;
  std::shared_ptr<jit::Graph> graph;
};

using Names = std::set<std::string>;

// `used`: the parameters and buffers that the module gets; none for all.
jit::Module MakeModule(const std::string& name, const torch::nn::Module& owner, const Names* used) {
  jit::Module module("__torch__." + name);
  const auto is_used = [&](const std::string& id) { return used == nullptr || used->contains(id); };
  for (const auto& parameter : owner.named_parameters()) {
    const std::string id = Identifier(parameter.key());
    Tensor value = parameter.value();
    value.requires_grad_(false);
    if (is_used(id)) module.register_parameter(id, value, /*is_buffer=*/false);
  }
  for (const auto& buffer : owner.named_buffers()) {
    const std::string id = Identifier(buffer.key());
    if (is_used(id)) module.register_buffer(id, buffer.value());
  }
  return module;
}

Tensor ExampleOf(const GraphInput& input, std::int64_t batch) {
  std::vector<std::int64_t> shape = {batch};
  shape.insert(shape.end(), input.shape.begin(), input.shape.end());
  return torch::ones(shape, input.type);
}

Recording Record(jit::Module module, const std::vector<GraphInput>& inputs, std::int64_t batch,
                 const TensorFunction& function) {
  jit::Stack examples;
  std::vector<std::string> names;
  for (const GraphInput& input : inputs) {
    examples.emplace_back(ExampleOf(input, batch));
    names.push_back(input.name);
  }
  const auto run = [&](const jit::Stack& stack) {
    std::vector<Tensor> tensors;
    for (const jit::IValue& value : stack) tensors.push_back(value.toTensor());
    return jit::Stack{function(tensors)};
  };
  const torch::NoGradGuard no_grad;
  const auto [state, outputs] = jit::tracer::trace(
      std::move(examples), run, [](const Tensor&) { return std::string(); }, /*strict=*/true,
      /*force_outplace=*/true, &module, names);
  jit::EliminateDeadCode(state->graph);
  return {.module = std::move(module), .graph = state->graph};
}

Names AttributesOf(const jit::Graph& graph) {
  Names names;
  for (const jit::Node* node : graph.nodes()) {
    if (node->kind() == c10::prim::GetAttr) names.insert(node->s(c10::attr::name));
  }
  return names;
}

bool IsInteger(const jit::Node& node) {
  return node.kind() == c10::prim::Constant && node.hasAttribute(c10::attr::value) &&
         node.kindOf(c10::attr::value) == jit::AttributeKind::i;
}

[[noreturn]] void RefuseSize(const std::string& what) {
  throw ConfigError("this policy has no graph for every batch size: {}", what);
}

// The one that uses a value, for messages.
std::string UserOf(const jit::Node& node) {
  const auto& uses = node.output()->uses();
  if (uses.empty()) return "nothing";
  const jit::Node* user = uses.front().user;
  if (user->kind() == c10::prim::ListConstruct && !user->output()->uses().empty()) {
    user = user->output()->uses().front().user;
  }
  return user->kind().toQualString();
}

// The sizes of `value`, of which those that depend on the batch become unknown.
void FreeSizes(jit::Value& value, const jit::Value& other) {
  const auto type = value.type()->cast<c10::TensorType>();
  const auto twin = other.type()->cast<c10::TensorType>();
  if (!type || !type->sizes().concrete_sizes()) return;
  std::vector<std::optional<std::int64_t>> sizes;
  for (std::size_t i = 0; i < *type->dim(); ++i) {
    const std::int64_t size = *type->sizes()[i];
    sizes.push_back(size == *twin->sizes()[i] ? std::optional(size) : std::nullopt);
  }
  value.setType(c10::TensorType::create(type->scalarType(), type->device(),
                                        c10::SymbolicShape(sizes), c10::VaryingShape<c10::Stride>(),
                                        type->requires_grad()));
}

// Computes integers that differ between the two recordings from the size of the first input.
void FreeBatch(jit::Graph& graph, const jit::Graph& other) {
  jit::Value* const input = graph.inputs().at(1);  // after the module
  jit::Value* batch = nullptr;
  for (std::size_t i = 1; i < graph.inputs().size(); ++i) {
    FreeSizes(*graph.inputs()[i], *other.inputs()[i]);
  }
  auto in_other = other.nodes().begin();
  std::vector<std::pair<jit::Node*, std::int64_t>> multiples;
  for (jit::Node* node : graph.nodes()) {
    if (in_other == other.nodes().end() || node->kind() != (*in_other)->kind()) {
      RefuseSize("its operators depend on it");
    }
    const jit::Node& twin = **in_other++;
    for (std::size_t i = 0; i < node->outputs().size(); ++i) {
      FreeSizes(*node->outputs()[i], *twin.outputs()[i]);
    }
    if (!IsInteger(*node) || node->i(c10::attr::value) == twin.i(c10::attr::value)) continue;
    const std::int64_t value = node->i(c10::attr::value);
    const std::int64_t factor = value / kBatch;
    if (factor * kBatch != value || factor * kOtherBatch != twin.i(c10::attr::value)) {
      RefuseSize(fmt::format("a size of {} is {} for a batch of {}, and {} for one of {}",
                             UserOf(*node), value, kBatch, twin.i(c10::attr::value), kOtherBatch));
    }
    multiples.emplace_back(node, factor);
  }
  if (in_other != other.nodes().end()) RefuseSize("its operators depend on it");
  if (multiples.empty()) return;

  {
    const jit::WithInsertPoint at_start(*graph.nodes().begin());
    batch = graph.insert(c10::aten::size, {input, 0});
  }
  for (const auto& [node, factor] : multiples) {
    const jit::WithInsertPoint here(node);
    node->output()->replaceAllUsesWith(factor == 1 ? batch
                                                   : graph.insert(c10::aten::mul, {batch, factor}));
  }
  jit::EliminateDeadCode(graph.block());
}

}  // namespace

TracedGraph Trace(const std::string& name, torch::nn::Module& owner,
                  const std::vector<GraphInput>& inputs, const TensorFunction& function) {
  const Recording all = Record(MakeModule(name, owner, nullptr), inputs, kOtherBatch, function);
  const Names used = AttributesOf(*all.graph);
  Recording recording = Record(MakeModule(name, owner, &used), inputs, kBatch, function);
  FreeBatch(*recording.graph, *all.graph);

  const auto& type = recording.module.type();
  type->addMethod(recording.module._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*type->name(), "forward"), recording.graph));
  return {.module = recording.module, .inputs = inputs};
}

}  // namespace dp_bench::graph
