// The extension module dp_bench._policy: a trained policy, by dp_bench/deploy.h of an installation.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dp_bench/deploy.h"
#include "dp_bench/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace dp_bench::python {
namespace {

/// An array of any dtype, shape and strides.
using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;
using Observation = std::map<std::string, AnyArray>;

/// The dtype; Error{kShape} for one that no observation has.
DType DTypeOfArray(const std::string& key, const AnyArray& array) {
  for (const auto& [dtype, found] : {std::pair{DType::kUInt8, nb::dtype<std::uint8_t>()},
                                     {DType::kUInt16, nb::dtype<std::uint16_t>()},
                                     {DType::kInt32, nb::dtype<std::int32_t>()},
                                     {DType::kInt64, nb::dtype<std::int64_t>()},
                                     {DType::kFloat32, nb::dtype<float>()},
                                     {DType::kFloat64, nb::dtype<double>()}}) {
    if (array.dtype() == found) return dtype;
  }
  throw Error(ErrorCode::kShape,
              "observation '" + key + "': expected uint8, uint16 or float32, found another dtype");
}

ObsView ViewOf(const std::string& key, const AnyArray& array) {
  const DType dtype = DTypeOfArray(key, array);
  std::vector<std::int64_t> sizes(array.ndim());
  std::vector<std::int64_t> byte_strides(array.ndim());
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    sizes[i] = static_cast<std::int64_t>(array.shape(i));
    byte_strides[i] = array.stride(i) * static_cast<std::int64_t>(SizeOf(dtype));
  }
  return {key, array.data(), dtype, Dims(sizes), Dims(byte_strides)};
}

/// Calls wait for each other, because a Controller is for one thread at a time.
class LoadedPolicy {
 public:
  LoadedPolicy(const std::string& checkpoint, const ControllerOptions& options)
      : process_id_(::getpid()),
        controller_(std::make_unique<Controller>(Load(checkpoint, options))) {}
  LoadedPolicy(const LoadedPolicy&) = delete;
  LoadedPolicy& operator=(const LoadedPolicy&) = delete;
  ~LoadedPolicy() {
    // a forked process would wait for a thread that it does not have
    if (::getpid() != process_id_) static_cast<void>(controller_.release());
  }

  /// Keys as in `shape_meta`: a list of (name, storage shape, dtype).
  nb::typed<nb::dict, nb::str, nb::any> Spec() const {
    const PolicySpec& spec = controller_->spec();
    nb::list obs;
    for (const KeySpec& key : spec.shape_meta.obs) {
      obs.append(nb::make_tuple(key.name, key.StorageShape(), std::string(Name(key.dtype))));
    }
    nb::typed<nb::dict, nb::str, nb::any> result;
    result["obs"] = obs;
    result["action_dim"] = spec.shape_meta.action_dim();
    result["horizon"] = spec.horizons.horizon;
    result["n_obs_steps"] = spec.horizons.n_obs_steps;
    result["n_action_steps"] = spec.horizons.n_action_steps;
    return result;
  }

  void Reset(std::uint64_t seed) {
    const nb::gil_scoped_release released;
    Controller& controller = RequireOwn();
    const std::lock_guard lock(mutex_);
    controller.Reset(seed);
  }

  /// Writes the action into `action`, [Da].
  void Act(const Observation& obs, const nb::ndarray<float, nb::ndim<1>, nb::c_contig>& action) {
    std::vector<ObsView> views;
    for (const auto& [key, array] : obs) views.push_back(ViewOf(key, array));
    const nb::gil_scoped_release released;
    Controller& controller = RequireOwn();
    const std::lock_guard lock(mutex_);
    const std::span<const float> found = controller.Act(views);
    if (found.size() != action.size()) {
      throw Error(ErrorCode::kShape, "expected room for an action of " +
                                         std::to_string(found.size()) + " numbers, found " +
                                         std::to_string(action.size()));
    }
    std::ranges::copy(found, action.data());
  }

  /// Writes the chunks of all rows into `chunks`, [B, Ta, Da].
  void Predict(const Observation& obs,
               const nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig>& seeds,
               const nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig>& steps,
               const nb::ndarray<float, nb::ndim<3>, nb::c_contig>& chunks) {
    std::vector<ObsView> views;
    for (const auto& [key, array] : obs) views.push_back(ViewOf(key, array));
    const nb::gil_scoped_release released;
    Controller& controller = RequireOwn();
    const std::lock_guard lock(mutex_);
    controller.Predict(views, {seeds.data(), seeds.size()}, {chunks.data(), chunks.size()},
                       {steps.data(), steps.size()});
  }

  nb::typed<nb::dict, nb::str, nb::any> Timing() const {
    const ActTiming timing = LatestTiming();
    nb::typed<nb::dict, nb::str, nb::any> result;
    result["act_s"] = timing.act_s;
    result["plan_s"] = timing.plan_s;
    result["is_stale"] = timing.is_stale;
    result["is_late"] = timing.is_late;
    result["has_missed_deadline"] = timing.has_missed_deadline;
    return result;
  }

 private:
  ActTiming LatestTiming() const {
    const nb::gil_scoped_release released;
    const Controller& controller = RequireOwn();
    const std::lock_guard lock(mutex_);
    return controller.timing();
  }

  // Before the lock, which another thread may hold forever in a forked process.
  Controller& RequireOwn() const {
    if (::getpid() == process_id_) return *controller_;
    throw Error(ErrorCode::kUsage,
                "this policy belongs to the process that forked this one, and its threads are not "
                "here; start processes with multiprocessing's 'spawn' or 'forkserver', and load it "
                "there");
  }

  static Controller Load(const std::string& checkpoint, const ControllerOptions& options) {
    const nb::gil_scoped_release released;
    return Controller::Load(checkpoint, options);
  }

  mutable std::mutex mutex_;
  pid_t process_id_;
  std::unique_ptr<Controller> controller_;
};

/// An exception translator: the error of dp_bench.errors for the exit code.
void TranslateToErrors(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const nb::object made = nb::module_::import_("dp_bench.errors")
                                .attr("error_of")(ExitCodeFor(error.code()), error.what());
    PyErr_SetObject(made.type().ptr(), made.ptr());
  }
}

NB_MODULE(_policy, module) {
  nb::register_exception_translator(TranslateToErrors);
  nb::class_<LoadedPolicy>(module, "LoadedPolicy", "A policy from a checkpoint")
      .def(
          "__init__",
          [](LoadedPolicy* place, const std::string& checkpoint, const std::string& weights,
             const std::string& device, const std::vector<std::string>& plugin_dirs,
             int latency_steps, double deadline_s, int micro_batch) {
            new (place) LoadedPolicy(checkpoint, {.weights = weights,
                                                  .device = device,
                                                  .plugin_dirs = std::vector<std::filesystem::path>(
                                                      plugin_dirs.begin(), plugin_dirs.end()),
                                                  .latency_steps = latency_steps,
                                                  .deadline_s = deadline_s,
                                                  .micro_batch = micro_batch});
          },
          "checkpoint"_a, "weights"_a, "device"_a, "plugin_dirs"_a, "latency_steps"_a,
          "deadline_s"_a, "micro_batch"_a)
      .def("spec", &LoadedPolicy::Spec, "Keys, action_dim and horizons")
      .def("reset", &LoadedPolicy::Reset, "seed"_a, "Begins an episode")
      .def("act", &LoadedPolicy::Act, "obs"_a, "action"_a,
           nb::sig(
               "def act(self, obs: collections.abc.Mapping[str, numpy.typing.NDArray[typing.Any]], "
               "action: numpy.typing.NDArray[numpy.float32]) -> None"),
           "Writes the action of the current step")
      .def("predict", &LoadedPolicy::Predict, "obs"_a, "seeds"_a, "steps"_a, "chunks"_a,
           nb::sig("def predict(self, obs: collections.abc.Mapping[str, "
                   "numpy.typing.NDArray[typing.Any]], seeds: numpy.typing.NDArray[numpy.uint64], "
                   "steps: numpy.typing.NDArray[numpy.uint64], chunks: "
                   "numpy.typing.NDArray[numpy.float32]) -> None"),
           "Writes a chunk for each row")
      .def("timing", &LoadedPolicy::Timing, "Of the latest call of act");
}

}  // namespace
}  // namespace dp_bench::python
