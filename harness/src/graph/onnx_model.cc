// See onnx_model.h. Field numbers and enum values are those of onnx/onnx.proto.
#include "graph/onnx_model.h"

#include "core/errors.h"

namespace dp_bench::graph {
namespace {

using core::ProtoEncoder;
using torch::Tensor;

constexpr std::int64_t kIrVersion = 10;
constexpr std::int64_t kOperatorSet = 20;

void AddOnnxAttribute(const std::string& name, const OnnxAttribute& value, ProtoEncoder* node) {
  enum Type : std::int64_t { kFloat = 1, kInt = 2, kString = 3, kInts = 7 };
  ProtoEncoder attribute;
  attribute.AddBytes(1, name);
  std::int64_t type = kInt;
  if (const auto* number = std::get_if<float>(&value)) {
    attribute.AddFloat(2, *number);
    type = kFloat;
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    attribute.AddEveryInt64(3, *integer);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    attribute.AddBytes(4, *text);
    type = kString;
  } else {
    for (const std::int64_t element : std::get<std::vector<std::int64_t>>(value)) {
      attribute.AddEveryInt64(8, element);
    }
    type = kInts;
  }
  attribute.AddInt64(20, type);
  node->AddMessage(5, attribute);
}

ProtoEncoder ValueInfo(const std::string& name, torch::ScalarType type,
                       const std::vector<std::optional<std::int64_t>>& shape) {
  ProtoEncoder shape_proto;
  for (const std::optional<std::int64_t>& size : shape) {
    ProtoEncoder dimension;
    if (size) {
      dimension.AddEveryInt64(1, *size);
    } else {
      dimension.AddBytes(2, "batch");
    }
    shape_proto.AddMessage(1, dimension);
  }
  ProtoEncoder tensor_type;
  tensor_type.AddInt64(1, OnnxModel::ElementType(type));
  tensor_type.AddMessage(2, shape_proto);
  ProtoEncoder type_proto;
  type_proto.AddMessage(1, tensor_type);
  ProtoEncoder info;
  info.AddBytes(1, name);
  info.AddMessage(2, type_proto);
  return info;
}

}  // namespace

std::int64_t OnnxModel::ElementType(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat32:
      return 1;
    case torch::kUInt8:
      return 2;
    case torch::kUInt16:
      return 4;
    case torch::kInt64:
      return 7;
    case torch::kBool:
      return 9;
    case torch::kFloat64:
      return 11;
    default:
      throw ConfigError(
          "ONNX export: expected tensors of float32, uint8, uint16 or int64, found {}",
          c10::toString(type));
  }
}

std::string OnnxModel::AddTensor(const Tensor& tensor) {
  const Tensor dense = tensor.detach().cpu().contiguous();
  ProtoEncoder proto;
  for (const std::int64_t size : dense.sizes()) proto.AddEveryInt64(1, size);
  proto.AddInt64(2, ElementType(dense.scalar_type()));
  std::string name = NewName();
  proto.AddBytes(8, name);
  proto.AddBytes(9, {static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()});
  graph_tensors_.AddMessage(5, proto);
  return name;
}

std::string OnnxModel::AddInts(const std::vector<std::int64_t>& values) {
  std::string& name = ints_[values];
  if (name.empty()) name = AddTensor(torch::tensor(values, torch::kInt64));
  return name;
}

std::string OnnxModel::AddFloat(double value) {
  return AddTensor(torch::tensor(value, torch::kFloat32));
}

std::string OnnxModel::AddNode(const std::string& op, const std::vector<std::string>& inputs,
                               const OnnxAttributes& attributes, const std::string& output) {
  ProtoEncoder node;
  for (const std::string& input : inputs) node.AddBytes(1, input);
  std::string name = output.empty() ? NewName() : output;
  node.AddBytes(2, name);
  node.AddBytes(4, op);
  for (const auto& [attribute, value] : attributes) AddOnnxAttribute(attribute, value, &node);
  graph_nodes_.AddMessage(1, node);
  return name;
}

void OnnxModel::AddInput(const std::string& name, torch::ScalarType type,
                         const std::vector<std::optional<std::int64_t>>& shape) {
  graph_inputs_.AddMessage(11, ValueInfo(name, type, shape));
}

void OnnxModel::AddOutput(const std::string& name, torch::ScalarType type,
                          const std::vector<std::optional<std::int64_t>>& shape) {
  graph_outputs_.AddMessage(12, ValueInfo(name, type, shape));
}

std::string OnnxModel::Take(const std::string& name) {
  std::string graph = graph_nodes_.Take();
  ProtoEncoder graph_name;
  graph_name.AddBytes(2, name);
  graph += graph_name.Take();
  graph += graph_tensors_.Take();
  graph += graph_inputs_.Take();
  graph += graph_outputs_.Take();

  ProtoEncoder operator_set;
  operator_set.AddBytes(1, "");
  operator_set.AddInt64(2, kOperatorSet);
  ProtoEncoder model;
  model.AddInt64(1, kIrVersion);
  model.AddBytes(2, "dp_bench");
  model.AddBytes(7, graph);
  model.AddMessage(8, operator_set);
  return model.Take();
}

}  // namespace dp_bench::graph
