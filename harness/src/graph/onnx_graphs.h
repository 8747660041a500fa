// The graphs of a policy as ONNX models in memory, and the libraries that run them.
#pragma once

#include <memory>
#include <string>

#include "graph/graph_runtime.h"

namespace dp_bench::graph {

/// The bytes of the two models.
struct OnnxGraphs {
  std::string encoder;
  std::string denoiser;
};

/// OpenVINO on the CPU, in float32. Its library is loaded now. Throws Error{kPlugin} if this build
/// of dp_bench has none, or if it does not take the models.
std::unique_ptr<GraphRuntime> MakeOpenVinoRuntime(const OnnxGraphs& graphs);

/// What the library libdp_bench_openvino.so exports under the name kOpenVinoEntry. The caller owns
/// the result.
using OpenVinoEntry = GraphRuntime*(const OnnxGraphs& graphs, int n_threads);
inline constexpr const char* kOpenVinoEntry = "dp_bench_make_openvino_runtime";

}  // namespace dp_bench::graph
