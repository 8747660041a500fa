#include "bindings.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "dp_bench/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace dp_bench::python {
namespace {

template <class T, class Rank>
using NumpyArray = nb::ndarray<T, Rank, nb::c_contig, nb::device::cpu>;
template <class T>
using Vector = NumpyArray<T, nb::ndim<1>>;
template <class T>
using Matrix = NumpyArray<T, nb::ndim<2>>;
using Image = NumpyArray<std::uint8_t, nb::shape<-1, -1, 3>>;

using Dictionary = nb::typed<nb::dict, nb::str, nb::any>;

template <class Array>
auto SpanOf(const Array& array) {
  return std::span(array.data(), array.size());
}

/// Throws Error{kShape} unless an array has this size.
void RequireSize(const char* name, std::size_t wanted, std::size_t found) {
  if (wanted == found) return;
  throw Error(ErrorCode::kShape, std::string("expected ") + name + " of size " +
                                     std::to_string(wanted) + ", found " + std::to_string(found));
}

/// The arrays that a batch writes, one row per env. numpy has allocated them; this keeps them.
class Rows {
 public:
  using ObsArray = nb::ndarray<nb::c_contig, nb::device::cpu>;  // of any type and shape

  Rows(const EnvBatch& batch, std::vector<ObsArray> obs, Matrix<double> infos,
       Vector<double> rewards, std::vector<Vector<bool>> flags)
      : n_(batch.num_envs()),
        obs_(std::move(obs)),
        infos_(std::move(infos)),
        rewards_(std::move(rewards)),
        flags_(std::move(flags)) {
    const SimulationSpec& spec = batch.spec();
    RequireSize("obs", spec.obs.size(), obs_.size());
    for (std::size_t i = 0; i < obs_.size(); ++i) {
      RequireSize(spec.obs[i].name.c_str(), n_ * spec.obs[i].n_bytes, obs_[i].nbytes());
      rows_.obs.push_back(static_cast<std::byte*>(obs_[i].data()));
    }
    RequireSize("infos", n_ * spec.infos.size(), infos_.size());
    RequireSize("rewards", n_, rewards_.size());
    RequireSize("flags", 4, flags_.size());
    for (const Vector<bool>& flag : flags_) RequireSize("a flag", n_, flag.size());
    rows_.infos = SpanOf(infos_);
    rows_.rewards = SpanOf(rewards_);
    rows_.is_success = SpanOf(flags_[0]);
    rows_.is_reset = SpanOf(flags_[1]);
    rows_.terminated = SpanOf(flags_[2]);
    rows_.truncated = SpanOf(flags_[3]);
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  const EnvRows& rows() const { return rows_; }
  std::size_t num_envs() const { return n_; }

 private:
  std::size_t n_;
  std::vector<ObsArray> obs_;
  Matrix<double> infos_;
  Vector<double> rewards_;
  std::vector<Vector<bool>> flags_;
  EnvRows rows_;
};

/// Keys as in `shape_meta`: a list of (name, storage shape, dtype).
Dictionary Describe(const EnvBatch& batch) {
  const SimulationSpec& spec = batch.spec();
  nb::list obs;
  for (const ArraySpec& array : spec.obs) {
    obs.append(nb::make_tuple(array.name, array.shape, array.dtype));
  }
  Dictionary result;
  result["obs"] = obs;
  result["action_low"] = spec.action_low;
  result["action_high"] = spec.action_high;
  result["control_hz"] = spec.control_hz;
  result["max_steps"] = spec.max_steps;
  result["metrics"] = spec.infos;
  return result;
}

/// `states`: invalid if Python passed None.
EnvStarts StartsOf(const EnvBatch& batch, const Vector<const std::uint64_t>& seeds,
                   const Matrix<const double>& states) {
  RequireSize("seeds", batch.num_envs(), seeds.size());
  EnvStarts starts = {.seeds = SpanOf(seeds), .states = {}};
  if (!states.is_valid()) return starts;
  RequireSize("states", batch.num_envs() * batch.spec().state_size, states.size());
  starts.states = SpanOf(states);
  return starts;
}

void Reset(EnvBatch& batch, const Rows& rows, const Vector<const bool>& mask,
           const Vector<const std::uint64_t>& seeds, const Matrix<const double>& states) {
  RequireSize("rows", batch.num_envs(), rows.num_envs());
  RequireSize("mask", batch.num_envs(), mask.size());
  const EnvStarts starts = StartsOf(batch, seeds, states);
  const nb::gil_scoped_release released;
  batch.Reset(SpanOf(mask), starts, rows.rows());
}

void Step(EnvBatch& batch, const Matrix<const double>& actions,
          const Vector<const std::uint64_t>& seeds, const Matrix<const double>& states,
          const Rows& rows, const Rows& final_rows) {
  RequireSize("rows", batch.num_envs(), rows.num_envs());
  RequireSize("final_rows", batch.num_envs(), final_rows.num_envs());
  RequireSize("actions", batch.num_envs() * batch.spec().action_low.size(), actions.size());
  const EnvStarts starts = StartsOf(batch, seeds, states);
  const nb::gil_scoped_release released;
  batch.Step(SpanOf(actions), starts, rows.rows(), final_rows.rows());
}

void Render(EnvBatch& batch, std::size_t env, const Image& image) {
  RequireSize("the list of envs", batch.num_envs(), std::max(batch.num_envs(), env + 1));
  const nb::gil_scoped_release released;
  RgbImage frame(static_cast<int>(image.shape(1)), static_cast<int>(image.shape(0)));
  batch.Render(env, &frame);
  std::ranges::copy(frame.pixels, image.data());
}

/// The name of a gymnasium.vector.AutoresetMode, or NONE.
Autoreset ParseAutoreset(const std::string& mode) {
  if (mode == "NEXT_STEP") return Autoreset::kNextStep;
  if (mode == "SAME_STEP") return Autoreset::kSameStep;
  if (mode == "DISABLED") return Autoreset::kDisabled;
  if (mode == "NONE") return Autoreset::kNone;
  throw Error(ErrorCode::kConfig, "expected an autoreset mode, found '" + mode + "'");
}

void TranslateError(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const ErrorCode code = error.code();
    const bool is_bad_value =
        code == ErrorCode::kShape || code == ErrorCode::kNumeric || code == ErrorCode::kConfig;
    PyErr_SetString(is_bad_value ? PyExc_ValueError : PyExc_RuntimeError, error.what());
  }
}

}  // namespace

void BindBatch(nb::module_& m) {
  nb::register_exception_translator(&TranslateError);
  nb::class_<BatchOptions>(m, "BatchOptions", "How many envs step together, and how.")
      .def(
          "__init__",
          [](BatchOptions* place, int num_envs, int n_threads, const std::string& autoreset,
             int max_episode_steps) {
            new (place)
                BatchOptions{num_envs, n_threads, ParseAutoreset(autoreset), max_episode_steps};
          },
          "num_envs"_a, "n_threads"_a, "autoreset"_a, "max_episode_steps"_a);
  nb::class_<EnvBatch>(m, "EnvBatch", "Simulations that step together on a thread pool.")
      .def("spec", &Describe,
           "obs (name, shape and dtype of each array), action_low, action_high, control_hz, "
           "max_steps and metrics (the numbers of an info).")
      .def("reset", &Reset, "rows"_a, nb::arg("mask").noconvert(), nb::arg("seeds").noconvert(),
           nb::arg("states").none().noconvert(),
           "Resets the envs of the mask and writes the rows of all. Episodes start in `states`, or "
           "from `seeds` if that is None.")
      .def("step", &Step, nb::arg("actions").noconvert(), nb::arg("seeds").noconvert(),
           nb::arg("states").none().noconvert(), "rows"_a, "final_rows"_a,
           "Steps all envs. Those that reset start as in `reset`. final_rows gets the last rows of "
           "episodes that end in SAME_STEP.")
      .def("render", &Render, "env"_a, nb::arg("image").noconvert(),
           "Draws a frame of one env into uint8 [height, width, 3].");
  nb::class_<Rows>(m, "Rows", "Arrays that an EnvBatch writes, one row per env.")
      .def(
          nb::init<const EnvBatch&, std::vector<Rows::ObsArray>, Matrix<double>, Vector<double>,
                   std::vector<Vector<bool>>>(),
          "batch"_a, "obs"_a, "infos"_a, "rewards"_a, "flags"_a,
          nb::sig("def __init__(self, batch: EnvBatch, "
                  "obs: collections.abc.Sequence[numpy.typing.NDArray[typing.Any]], "
                  "infos: numpy.typing.NDArray[numpy.float64], "
                  "rewards: numpy.typing.NDArray[numpy.float64], "
                  "flags: collections.abc.Sequence[numpy.typing.NDArray[numpy.bool_]]) -> None"),
          "`obs`: in the order of the spec. `flags`: is_success, is_reset, terminated, truncated.");
}

}  // namespace dp_bench::python
