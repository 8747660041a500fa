#include "bindings.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <numeric>
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

nb::dlpack::dtype NumpyType(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return nb::dtype<std::uint8_t>();
    case DType::kUInt16:
      return nb::dtype<std::uint16_t>();
    case DType::kInt32:
      return nb::dtype<std::int32_t>();
    case DType::kInt64:
      return nb::dtype<std::int64_t>();
    case DType::kFloat32:
      return nb::dtype<float>();
    case DType::kFloat64:
      return nb::dtype<double>();
  }
  throw Error(ErrorCode::kInternal, "a dtype without a name");
}

/// As numpy names it: "float32".
std::string NameOf(nb::dlpack::dtype dtype) {
  const bool is_float = dtype.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float);
  const bool is_signed = dtype.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int);
  return (is_float ? "float" : is_signed ? "int" : "uint") + std::to_string(dtype.bits);
}

/// The arrays that a batch writes. Their memory lives as long as this or one of the views.
class Rows {
 public:
  explicit Rows(const EnvBatch& batch) : n_(batch.num_envs()) {
    for (const ArraySpec& array : batch.spec().obs) {
      arrays_.push_back({array.name, array.shape, NumpyType(array.dtype), Allocate(array.n_bytes)});
      rows_.obs.push_back(arrays_.back().data);
    }
    const auto n_infos = static_cast<std::int64_t>(batch.spec().infos.size());
    rows_.infos = Add<double>("infos", {n_infos});
    rows_.is_success = Add<bool>("is_success");
    rows_.is_reset = Add<bool>("is_reset");
    rows_.seeds = Add<std::uint64_t>("seeds");
    rows_.rewards = Add<double>("rewards");
    rows_.terminated = Add<bool>("terminated");
    rows_.truncated = Add<bool>("truncated");
  }

  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  const EnvRows& rows() const { return rows_; }
  std::size_t num_envs() const { return n_; }

  /// Views by name: the first `obs().size()` are the observation.
  nb::dict Views(nb::handle self, bool is_obs) const {
    nb::dict views;
    const std::size_t n_obs = rows_.obs.size();
    const std::size_t begin = is_obs ? 0 : n_obs;
    const std::size_t end = is_obs ? n_obs : arrays_.size();
    for (std::size_t i = begin; i < end; ++i) {
      const NamedArray& array = arrays_[i];
      std::vector<std::size_t> shape = {n_};
      shape.insert(shape.end(), array.shape.begin(), array.shape.end());
      views[array.name.c_str()] = nb::ndarray<nb::numpy>(array.data, shape.size(), shape.data(),
                                                         self, nullptr, array.dtype);
    }
    return views;
  }

 private:
  struct NamedArray {
    std::string name;
    Shape shape;  // of a row
    nb::dlpack::dtype dtype;
    std::byte* data;
  };

  std::byte* Allocate(std::size_t row_bytes) {
    // not zeroed, and aligned for every number
    memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(n_ * row_bytes));
    return memory_.back().get();
  }

  template <class T>
  std::span<T> Add(const char* name, Shape shape = {}) {
    const std::size_t row = shape.empty() ? 1 : static_cast<std::size_t>(shape[0]);
    std::byte* const data = Allocate(row * sizeof(T));
    arrays_.push_back({name, std::move(shape), nb::dtype<T>(), data});
    return {reinterpret_cast<T*>(data), n_ * row};
  }

  std::size_t n_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<NamedArray> arrays_;
  EnvRows rows_;
};

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

/// Keys as in `shape_meta`: a list of (name, storage shape, dtype).
Dictionary Describe(const EnvBatch& batch) {
  const SimulationSpec& spec = batch.spec();
  nb::list obs;
  for (const ArraySpec& array : spec.obs) {
    obs.append(nb::make_tuple(array.name, array.shape, NameOf(NumpyType(array.dtype))));
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

void Reset(EnvBatch& batch, const Rows& rows, const Vector<const bool>& mask,
           const Vector<const bool>& is_seeded, const Vector<const std::uint64_t>& seeds,
           const Matrix<const double>& states) {
  const std::size_t n = batch.num_envs();
  RequireSize("rows", n, rows.num_envs());
  RequireSize("mask", n, mask.size());
  RequireSize("is_seeded", n, is_seeded.size());
  RequireSize("seeds", n, seeds.size());
  EnvResets resets = {.mask = SpanOf(mask), .is_seeded = SpanOf(is_seeded), .seeds = SpanOf(seeds)};
  if (states.is_valid()) {  // else Python passed None
    RequireSize("states", n * batch.spec().state_size, states.size());
    resets.states = SpanOf(states);
  }
  const nb::gil_scoped_release released;
  batch.Reset(resets, rows.rows());
}

void Step(EnvBatch& batch, const Matrix<const double>& actions, const Rows& rows,
          const Rows& final_rows) {
  RequireSize("rows", batch.num_envs(), rows.num_envs());
  RequireSize("final_rows", batch.num_envs(), final_rows.num_envs());
  RequireSize("actions", batch.num_envs() * batch.spec().action_low.size(), actions.size());
  const nb::gil_scoped_release released;
  batch.Step(SpanOf(actions), rows.rows(), final_rows.rows());
}

void Render(EnvBatch& batch, std::size_t env, const Image& image) {
  RequireSize("the list of envs", batch.num_envs(), std::max(batch.num_envs(), env + 1));
  const nb::gil_scoped_release released;
  RgbImage frame(static_cast<int>(image.shape(1)), static_cast<int>(image.shape(0)));
  batch.Render(env, &frame);
  std::ranges::copy(frame.pixels, image.data());
}

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

std::unique_ptr<EnvBatch> MakeBatch(const EnvBatch::Factory& factory, const BatchOptions& options,
                                    std::size_t max_chunk) {
  return std::make_unique<EnvBatch>(factory, options.num_envs, options.n_threads, max_chunk,
                                    ParseAutoreset(options.autoreset), options.max_episode_steps);
}

void BindBatch(nb::module_& m) {
  nb::register_exception_translator(&TranslateError);
  nb::class_<BatchOptions>(m, "BatchOptions", "How many envs step together, and how.")
      .def(nb::init<int, int, std::string, int>(), "num_envs"_a, "n_threads"_a, "autoreset"_a,
           "max_episode_steps"_a);
  nb::class_<EnvBatch>(m, "EnvBatch", "Simulations that step together on a thread pool.")
      .def("spec", &Describe,
           "obs (name, shape and dtype of each array), action_low, action_high, control_hz, "
           "max_steps and metrics (the numbers of an info).")
      .def(
          "reset", &Reset, "rows"_a, nb::arg("mask").noconvert(), nb::arg("is_seeded").noconvert(),
          nb::arg("seeds").noconvert(), nb::arg("states").none().noconvert(),
          "Resets the envs of the mask and writes the rows of all. The generators of envs that get "
          "no seed continue.")
      .def("step", &Step, nb::arg("actions").noconvert(), "rows"_a, "final_rows"_a,
           "Steps all envs. final_rows gets the last rows of episodes that end in SAME_STEP.")
      .def("render", &Render, "env"_a, nb::arg("image").noconvert(),
           "Draws a frame of one env into uint8 [height, width, 3].");
  nb::class_<Rows>(m, "Rows", "Arrays that an EnvBatch writes, one row per env.")
      .def(nb::init<const EnvBatch&>(), "batch"_a)
      .def(
          "obs", [](nb::handle self) { return nb::cast<Rows&>(self).Views(self, true); },
          nb::sig("def obs(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
          "Views of the observation, by the names of the spec.")
      .def(
          "others", [](nb::handle self) { return nb::cast<Rows&>(self).Views(self, false); },
          nb::sig("def others(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
          "Views of infos, is_success, is_reset, seeds, rewards, terminated and truncated.");
}

}  // namespace dp_bench::python
