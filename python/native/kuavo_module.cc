// The extension module dp_bench._kuavo: the env plugin `kuavo_dualarm`, described by its EnvSpec,
// as one env and as many on a thread pool.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "dp_bench/config.h"
#include "dp_bench/env.h"
#include "dp_bench/error.h"
#include "env_batch.h"
#include "kuavo_env.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace dp_bench::python {
namespace {

/// An array of any dtype and shape; ObsWriter checks its size in bytes.
using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

Config ParamsFrom(const std::string& json) { return Config::FromJson(json, "the arguments"); }

using SpecDict = nb::typed<nb::dict, nb::str, nb::any>;

/// Keys as in `shape_meta`: a list of (name, storage shape, dtype).
SpecDict Describe(const EnvSpec& spec) {
  nb::list obs;
  for (const KeySpec& key : spec.shape_meta.obs) {
    obs.append(nb::make_tuple(key.name, key.StorageShape(), std::string(Name(key.dtype))));
  }
  nb::list metrics;
  for (const MetricSpec& metric : spec.metrics) metrics.append(metric.name);
  SpecDict result;
  result["obs"] = obs;
  result["action_low"] = spec.action_low;
  result["action_high"] = spec.action_high;
  result["control_hz"] = spec.control_hz;
  result["max_steps"] = spec.max_steps;
  result["metrics"] = metrics;
  return result;
}

class KuavoSim {
 public:
  explicit KuavoSim(const std::string& params) : KuavoSim(ParamsFrom(params)) {}

  SpecDict Spec() const { return Describe(env_.spec()); }

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

template <class T>
using Vector = NumpyArray<T, nb::ndim<1>>;

template <class T, class Rank>
std::span<T> SpanOf(const NumpyArray<T, Rank>& array) {
  return {array.data(), array.size()};
}

/// Throws Error{kShape} unless an array has this size.
void RequireSize(const char* name, std::size_t wanted, std::size_t found) {
  if (wanted == found) return;
  throw Error(ErrorCode::kShape, std::string("expected ") + name + " of size " +
                                     std::to_string(wanted) + ", found " + std::to_string(found));
}

/// Arrays that a KuavoBatch writes, and their memory.
struct KuavoRows {
  std::vector<AnyArray> obs;
  Vector<bool> is_success;
  NumpyArray<double, nb::ndim<2>> metrics;
  Vector<bool> is_reset;
  Vector<std::int64_t> seeds;

  EnvRows PointersFor(const EnvSpec& spec, std::size_t num_envs) const {
    const std::vector<KeySpec>& keys = spec.shape_meta.obs;
    RequireSize("the list of observations", keys.size(), obs.size());
    RequireSize("is_success", num_envs, is_success.size());
    RequireSize("is_reset", num_envs, is_reset.size());
    RequireSize("seeds", num_envs, seeds.size());
    RequireSize("metrics", num_envs * spec.metrics.size() * sizeof(double), metrics.nbytes());
    EnvRows rows = {.obs = {},
                    .is_success = SpanOf(is_success),
                    .metrics = SpanOf(metrics),
                    .is_reset = SpanOf(is_reset),
                    .seeds = SpanOf(seeds)};
    for (std::size_t i = 0; i < obs.size(); ++i) {
      RequireSize(keys[i].name.c_str(), num_envs * keys[i].ByteSize(), obs[i].nbytes());
      rows.obs.emplace_back(static_cast<std::byte*>(obs[i].data()), obs[i].nbytes());
    }
    return rows;
  }
};

Autoreset ParseAutoreset(const std::string& mode) {
  if (mode == "NEXT_STEP") return Autoreset::kNextStep;
  if (mode == "SAME_STEP") return Autoreset::kSameStep;
  if (mode == "DISABLED") return Autoreset::kDisabled;
  throw Error(ErrorCode::kConfig, "expected an autoreset mode, found '" + mode + "'");
}

class KuavoBatch {
 public:
  KuavoBatch(const std::string& params, int num_envs, int n_threads, const std::string& autoreset,
             int max_episode_steps)
      : batch_(
            [&] {
              const Config config = ParamsFrom(params);
              auto env = std::make_unique<kuavo_dualarm::KuavoEnv>(config);
              config.RejectUnread();
              return env;
            },
            num_envs, n_threads, ParseAutoreset(autoreset), max_episode_steps) {}

  SpecDict Spec() const { return Describe(batch_.spec()); }

  void Reset(const KuavoRows& rows, const Vector<const bool>& mask,
             const Vector<const bool>& is_seeded, const Vector<const std::uint64_t>& seeds) {
    RequireSize("mask", batch_.num_envs(), mask.size());
    RequireSize("is_seeded", batch_.num_envs(), is_seeded.size());
    RequireSize("seeds", batch_.num_envs(), seeds.size());
    const EnvRows pointers = rows.PointersFor(batch_.spec(), batch_.num_envs());
    const nb::gil_scoped_release released;
    batch_.Reset({.mask = SpanOf(mask), .is_seeded = SpanOf(is_seeded), .seeds = SpanOf(seeds)},
                 pointers);
  }

  void Step(const NumpyArray<const float, nb::ndim<2>>& actions, const KuavoRows& rows,
            const KuavoRows& final_rows, const Vector<double>& rewards,
            const Vector<bool>& terminated, const Vector<bool>& truncated) {
    const std::size_t n = batch_.num_envs();
    RequireSize("actions", n * batch_.spec().shape_meta.action.ByteSize(), actions.nbytes());
    RequireSize("rewards", n, rewards.size());
    RequireSize("terminated", n, terminated.size());
    RequireSize("truncated", n, truncated.size());
    const EnvRows pointers = rows.PointersFor(batch_.spec(), n);
    const EnvRows final_pointers = final_rows.PointersFor(batch_.spec(), n);
    const nb::gil_scoped_release released;
    batch_.Step(SpanOf(actions), pointers, final_pointers,
                {.rewards = SpanOf(rewards),
                 .terminated = SpanOf(terminated),
                 .truncated = SpanOf(truncated)});
  }

  void Render(std::size_t env, const Image& image) {
    const nb::gil_scoped_release released;
    RenderInto(image, [&](RgbImage* frame) { batch_.Render(env, frame); });
  }

 private:
  EnvBatch batch_;
};

void BindBatch(nb::module_& m) {
  nb::class_<KuavoRows>(m, "KuavoRows", "Arrays that a KuavoBatch writes, one row per env.")
      .def(nb::init<std::vector<AnyArray>, Vector<bool>, NumpyArray<double, nb::ndim<2>>,
                    Vector<bool>, Vector<std::int64_t>>(),
           "obs"_a, nb::arg("is_success").noconvert(), nb::arg("metrics").noconvert(),
           nb::arg("is_reset").noconvert(), nb::arg("seeds").noconvert(),
           nb::sig("def __init__(self, obs: "
                   "collections.abc.Sequence[numpy.typing.NDArray[typing.Any]], is_success: "
                   "numpy.typing.NDArray[numpy.bool_], metrics: "
                   "numpy.typing.NDArray[numpy.float64], is_reset: "
                   "numpy.typing.NDArray[numpy.bool_], seeds: "
                   "numpy.typing.NDArray[numpy.int64]) -> None"));
  nb::class_<KuavoBatch>(m, "KuavoBatch", "Many Kuavo simulations on a thread pool.")
      .def(nb::init<const std::string&, int, int, const std::string&, int>(), "params"_a,
           "num_envs"_a, "n_threads"_a, "autoreset"_a, "max_episode_steps"_a)
      .def("spec", &KuavoBatch::Spec, "As KuavoSim.spec.")
      .def("reset", &KuavoBatch::Reset, "rows"_a, nb::arg("mask").noconvert(),
           nb::arg("is_seeded").noconvert(), nb::arg("seeds").noconvert(),
           "Resets the envs of the mask and writes the rows of all. Envs that get no seed take the "
           "next one of their generator.")
      .def("step", &KuavoBatch::Step, nb::arg("actions").noconvert(), "rows"_a, "final_rows"_a,
           nb::arg("rewards").noconvert(), nb::arg("terminated").noconvert(),
           nb::arg("truncated").noconvert(),
           "Steps all envs. final_rows gets the last rows of episodes that end in SAME_STEP.")
      .def("render", &KuavoBatch::Render, "env"_a, nb::arg("image").noconvert(),
           "Draws a frame of one env into uint8 [height, width, 3].");
}

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
  BindBatch(m);
}
