// Graphs as ONNX models (onnx.ai, IR version 10, operator set 20).
#pragma once

#include <string>

#include "graph/trace.h"

namespace dp_bench::graph {

/// The bytes of a model that computes `graph`. Its first dimension, "batch", is free. `output` is
/// the name of the result. Throws Error{kConfig} naming an operator that has no translation.
std::string ToOnnx(const TracedGraph& graph, const std::string& output);

}  // namespace dp_bench::graph
