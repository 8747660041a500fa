// OpenVINO as a GraphRuntime: a library of its own, so that dp_bench starts without OpenVINO.
#include <openvino/openvino.hpp>

#include "core/errors.h"
#include "graph/graph_runtime.h"

namespace dp_bench::graph {
namespace {

ov::element::Type TypeOf(torch::ScalarType type) {
  switch (type) {
    case torch::kUInt8:
      return ov::element::u8;
    case torch::kUInt16:
      return ov::element::u16;
    default:
      return ov::element::f32;
  }
}

// A model that runs on one thread at a time.
class OpenVinoModel {
 public:
  OpenVinoModel(ov::Core& core, const std::string& model, int n_threads)
      : request_(core.compile_model(core.read_model(model, ov::Tensor()), "CPU",
                                    ov::hint::inference_precision(ov::element::f32),
                                    ov::inference_num_threads(n_threads))
                     .create_infer_request()) {}

  torch::Tensor Run(const std::vector<torch::Tensor>& inputs) {
    std::vector<torch::Tensor> dense;  // lives until the request is done
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      dense.push_back(inputs[i].contiguous());
      const ov::Shape shape(dense[i].sizes().begin(), dense[i].sizes().end());
      request_.set_input_tensor(
          i, ov::Tensor(TypeOf(dense[i].scalar_type()), shape, dense[i].const_data_ptr()));
    }
    request_.infer();
    ov::Tensor output = request_.get_output_tensor();
    const ov::Shape shape = output.get_shape();
    const std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    return torch::from_blob(output.data<float>(), sizes, torch::kFloat32).clone();
  }

 private:
  ov::InferRequest request_;
};

class OpenVinoRuntime final : public GraphRuntime {
 public:
  OpenVinoRuntime(const OnnxGraphs& graphs, int n_threads)
      : encoder_(core_, graphs.encoder, n_threads), denoiser_(core_, graphs.denoiser, n_threads) {}

  torch::Tensor Encode(const std::vector<torch::Tensor>& obs) override { return encoder_.Run(obs); }
  torch::Tensor Denoise(const std::vector<torch::Tensor>& inputs) override {
    return denoiser_.Run(inputs);
  }

 private:
  ov::Core core_;
  OpenVinoModel encoder_;
  OpenVinoModel denoiser_;
};

}  // namespace
}  // namespace dp_bench::graph

extern "C" __attribute__((visibility("default"))) dp_bench::graph::GraphRuntime*
dp_bench_make_openvino_runtime(const dp_bench::graph::OnnxGraphs& graphs, int n_threads) {
  try {
    return std::make_unique<dp_bench::graph::OpenVinoRuntime>(graphs, n_threads).release();
  } catch (const ov::Exception& error) {
    throw FormatError(dp_bench::ErrorCode::kPlugin, "policy.backend=openvino: {}", error.what());
  }
}
