// Builds the bytes of an ONNX model: the messages of onnx.proto.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/proto_encoder.h"

namespace dp_bench::graph {

/// An attribute of a node: int, float, string or ints.
using OnnxAttribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>>;
using OnnxAttributes = std::map<std::string, OnnxAttribute>;

/// Collects the nodes and weights of one model.
class OnnxModel {
 public:
  /// A weight or constant; returns its name. Equal integers are stored once.
  std::string AddTensor(const torch::Tensor& tensor);
  std::string AddInts(const std::vector<std::int64_t>& values);  // [n] int64
  std::string AddFloat(double value);                            // a float scalar

  /// A node with one output, whose name it returns: `output`, or a new one. An input that is empty
  /// is left out.
  std::string AddNode(const std::string& op, const std::vector<std::string>& inputs,
                      const OnnxAttributes& attributes = {}, const std::string& output = "");

  /// An input or output of the model; a size without value is the batch.
  void AddInput(const std::string& name, torch::ScalarType type,
                const std::vector<std::optional<std::int64_t>>& shape);
  void AddOutput(const std::string& name, torch::ScalarType type,
                 const std::vector<std::optional<std::int64_t>>& shape);

  /// The model's bytes. Leaves the model empty.
  std::string Take(const std::string& name);

  static std::int64_t ElementType(torch::ScalarType type);

 private:
  std::string NewName() { return "v" + std::to_string(n_names_++); }

  core::ProtoEncoder graph_nodes_;  // fields of GraphProto in the order of their numbers
  core::ProtoEncoder graph_tensors_;
  core::ProtoEncoder graph_inputs_;
  core::ProtoEncoder graph_outputs_;
  std::map<std::vector<std::int64_t>, std::string> ints_;
  int n_names_ = 0;
};

}  // namespace dp_bench::graph
