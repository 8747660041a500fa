// The extension module dp_bench._kuavo: the env plugin `kuavo_dualarm`, described by its EnvSpec.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "dp_bench/config.h"
#include "dp_bench/env.h"
#include "kuavo_env.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace dp_bench::python {
namespace {

/// An array of any dtype and shape; ObsWriter checks its size in bytes.
using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

Config ParamsFrom(const std::string& json) { return Config::FromJson(json, "the arguments"); }

class KuavoSim {
 public:
  explicit KuavoSim(const std::string& params) : KuavoSim(ParamsFrom(params)) {}

  /// Keys as in `shape_meta`: a list of (name, storage shape, dtype).
  nb::typed<nb::dict, nb::str, nb::any> Spec() const {
    const EnvSpec& spec = env_.spec();
    nb::list obs;
    for (const KeySpec& key : spec.shape_meta.obs) {
      obs.append(nb::make_tuple(key.name, key.StorageShape(), std::string(Name(key.dtype))));
    }
    nb::list metrics;
    for (const MetricSpec& metric : spec.metrics) metrics.append(metric.name);
    nb::typed<nb::dict, nb::str, nb::any> result;
    result["obs"] = obs;
    result["action_low"] = spec.action_low;
    result["action_high"] = spec.action_high;
    result["control_hz"] = spec.control_hz;
    result["max_steps"] = spec.max_steps;
    result["metrics"] = metrics;
    return result;
  }

  void Reset(std::uint64_t seed) {
    const nb::gil_scoped_release released;
    env_.Reset(seed);
  }

  std::tuple<double, bool, bool, std::vector<double>> Step(
      const NumpyArray<const float, nb::ndim<1>>& action) {
    const std::span<const float> numbers(action.data(), action.size());
    const nb::gil_scoped_release released;
    const StepResult result = env_.Step(numbers);
    return {result.reward,
            result.terminated,
            result.success,
            {result.metrics.begin(), result.metrics.end()}};
  }

  void Observe(const std::vector<AnyArray>& arrays) {
    std::vector<std::span<std::byte>> buffers;
    for (const AnyArray& array : arrays) {
      buffers.emplace_back(static_cast<std::byte*>(array.data()), array.nbytes());
    }
    const nb::gil_scoped_release released;
    env_.Observe(ObsWriter(env_.spec().shape_meta.obs, buffers));
  }

  void Render(const Image& image) {
    const nb::gil_scoped_release released;
    RenderInto(image, [&](RgbImage* frame) { env_.Render(frame); });
  }

 private:
  explicit KuavoSim(const Config& config) : env_(config) { config.RejectUnread(); }

  kuavo_dualarm::KuavoEnv env_;
};

}  // namespace
}  // namespace dp_bench::python

NB_MODULE(_kuavo, m) {
  using namespace dp_bench::python;
  m.doc() = "The env plugin kuavo_dualarm of dp_bench.";
  nb::register_exception_translator(&TranslateError);
  nb::class_<KuavoSim>(m, "KuavoSim", "Two arms at a table, simulated by MuJoCo.")
      .def(nb::init<const std::string&>(), "params"_a, "`params`: the plugin's params as JSON.")
      .def("spec", &KuavoSim::Spec,
           "obs (name, shape and dtype of each array), action_low, action_high, control_hz, "
           "max_steps and metrics.")
      .def("reset", &KuavoSim::Reset, "seed"_a, "Starts the episode of this seed.")
      .def("step", &KuavoSim::Step, nb::arg("action").noconvert(),
           "Returns reward, terminated, success and the metrics.")
      .def("observe", &KuavoSim::Observe, "arrays"_a,
           nb::sig("def observe(self, arrays: "
                   "collections.abc.Sequence[numpy.typing.NDArray[typing.Any]]) "
                   "-> None"),
           "Writes the observation into one array per entry of spec()['obs'], in that order.")
      .def("render", &KuavoSim::Render, nb::arg("image").noconvert(),
           "Draws a frame into uint8 [height, width, 3].");
}
