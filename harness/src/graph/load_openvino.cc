// See onnx_graphs.h: opens the library that links OpenVINO.
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "dp_bench/error.h"
#include "graph/onnx_graphs.h"

namespace dp_bench::graph {
namespace {

constexpr const char* kLibrary = "libdp_bench_openvino.so";

OpenVinoEntry* FindEntry() {
  // never closed: its objects live as long as policies do
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  void* const entry = library == nullptr ? nullptr : dlsym(library, kOpenVinoEntry);
  if (entry != nullptr) return reinterpret_cast<OpenVinoEntry*>(entry);
  throw Error(ErrorCode::kPlugin,
              fmt::format("policy.backend=openvino: expected {} beside the libraries of dp_bench, "
                          "found none that loads ({}). It is built where OpenVINO is installed: "
                          "run scripts/setup.sh and build again",
                          kLibrary, dlerror()));
}

}  // namespace

std::unique_ptr<GraphRuntime> MakeOpenVinoRuntime(const OnnxGraphs& graphs) {
  return std::unique_ptr<GraphRuntime>(FindEntry()(graphs, at::get_num_threads()));
}

}  // namespace dp_bench::graph
