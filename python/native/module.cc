// The extension module dp_bench._core: the simulations for the Python classes, which own the
// spaces, the options and the memory that is written here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "bindings.h"
#include "dp_bench/error.h"
#include "pusht_batch.h"
#include "pusht_render.h"
#include "pusht_sim.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace dp_bench::python {
namespace {

template <class T>
using Vector = NumpyArray<T, nb::ndim<1>>;
template <class T>
using Matrix = NumpyArray<T, nb::ndim<2>>;
using Pixels = NumpyArray<std::uint8_t, nb::shape<pusht::kImageSize, pusht::kImageSize, 3>>;
using PixelsBatch =
    NumpyArray<std::uint8_t, nb::shape<-1, pusht::kImageSize, pusht::kImageSize, 3>>;

/// A single simulation. `numbers` is a view of its latest state that is always the same memory, so
/// that a step allocates nothing.
class PushtSingle {
 public:
  // offsets in numbers
  static constexpr std::size_t kVelocity = kStateSize;
  static constexpr std::size_t kBlockPose = kVelocity + 2;
  static constexpr std::size_t kKeypoints = kBlockPose + 3;
  static constexpr std::size_t kSize = kKeypoints + kKeypointsSize;

  int Reset(const PushtStart& start) {
    sim_.Reset(start);
    target_.reset();
    WriteNumbers();
    return sim_.n_contacts();
  }

  std::tuple<double, bool, double, int> Step(double x, double y) {
    if (!std::isfinite(x) || !std::isfinite(y)) {
      throw Error(ErrorCode::kNumeric, "expected a finite action, found [" + std::to_string(x) +
                                           ", " + std::to_string(y) + "]");
    }
    target_ = pusht::Point{x, y};
    sim_.Step(*target_);
    WriteNumbers();
    return {sim_.reward(), sim_.is_success(), sim_.coverage(), sim_.n_contacts()};
  }

  void WriteKeypoints() {
    sim_.WriteKeypoints(std::span(numbers_).subspan<kKeypoints, kKeypointsSize>());
  }

  void DrawPixels(const Pixels& pixels) {
    if (renderer_ == nullptr) renderer_ = std::make_unique<pusht::PushtRenderer>();
    renderer_->RenderObservation(sim_.state(), {pixels.data(), kPixelsSize});
  }

  void Render(RgbImage* frame) const {
    pusht::RenderFrame(sim_.state(), target_ ? &*target_ : nullptr, frame);
  }

  std::array<double, kSize>& numbers() { return numbers_; }

 private:
  void WriteNumbers() {
    const std::span numbers(numbers_);
    const pusht::PushtState& now = sim_.state();
    sim_.WriteState(numbers.first<kStateSize>());
    std::ranges::copy(std::array{now.agent_velocity.x, now.agent_velocity.y, now.block.x,
                                 now.block.y, now.block.angle},
                      numbers.subspan(kVelocity).begin());
  }

  PushtSim sim_;
  std::optional<pusht::Point> target_;
  std::unique_ptr<pusht::PushtRenderer> renderer_;  // made when pixels are first drawn
  std::array<double, kSize> numbers_ = {};
};

template <class Array>
auto* DataOrNull(const Array& array) {
  return array.is_valid() ? array.data() : nullptr;
}

/// Arrays that a PushtBatch writes, and their memory. One that Python passes as None is not valid.
struct Rows {
  Matrix<double> state;
  Matrix<double> environment_state;
  Matrix<double> agent_pos;
  PixelsBatch pixels;
  Matrix<double> info;
  Vector<std::int64_t> n_contacts;
  Vector<bool> is_success;

  PushtRows pointers() const {
    return {.state = DataOrNull(state),
            .environment_state = DataOrNull(environment_state),
            .agent_pos = DataOrNull(agent_pos),
            .pixels = DataOrNull(pixels),
            .info = info.data(),
            .n_contacts = n_contacts.data(),
            .is_success = is_success.data()};
  }
};

/// Throws unless `array` is None or has this many rows and columns.
template <class Array>
void RequireRows(const Array& array, int rows, std::size_t columns, const char* name) {
  if (!array.is_valid()) return;
  const bool fits = array.shape(0) == static_cast<std::size_t>(rows) &&
                    array.size() == static_cast<std::size_t>(rows) * columns;
  if (fits) return;
  throw Error(ErrorCode::kShape, std::string("expected ") + name + " of " + std::to_string(rows) +
                                     " x " + std::to_string(columns) + " numbers, found " +
                                     std::to_string(array.shape(0)) + " rows and " +
                                     std::to_string(array.size()) + " numbers");
}

void RequireRows(const Rows& rows, int num_envs) {
  RequireRows(rows.state, num_envs, kStateSize, "state");
  RequireRows(rows.environment_state, num_envs, kKeypointsSize, "environment_state");
  RequireRows(rows.agent_pos, num_envs, 2, "agent_pos");
  RequireRows(rows.pixels, num_envs, kPixelsSize, "pixels");
  RequireRows(rows.info, num_envs, kInfoSize, "info");
  RequireRows(rows.n_contacts, num_envs, 1, "n_contacts");
  RequireRows(rows.is_success, num_envs, 1, "is_success");
}

void ResetBatch(PushtBatch& batch, const Rows& rows, const Vector<const bool>& mask,
                const Vector<const bool>& is_seeded, const Vector<const std::uint64_t>& seeds,
                const Matrix<const double>& starts) {
  const int num_envs = batch.num_envs();
  RequireRows(rows, num_envs);
  RequireRows(mask, num_envs, 1, "mask");
  RequireRows(is_seeded, num_envs, 1, "is_seeded");
  RequireRows(seeds, num_envs, 1, "seeds");
  RequireRows(starts, num_envs, kStateSize, "starts");
  const PushtResets resets = {.mask = mask.data(),
                              .is_seeded = is_seeded.data(),
                              .seeds = seeds.data(),
                              .starts = DataOrNull(starts)};
  const PushtRows pointers = rows.pointers();
  const nb::gil_scoped_release released;
  batch.Reset(resets, pointers);
}

void StepBatch(PushtBatch& batch, const Matrix<const double>& actions, const Rows& rows,
               const Rows& final_rows, const Vector<double>& rewards,
               const Vector<bool>& terminated, const Vector<bool>& truncated,
               const Vector<bool>& has_coverage) {
  const int num_envs = batch.num_envs();
  RequireRows(actions, num_envs, 2, "actions");
  RequireRows(rows, num_envs);
  RequireRows(final_rows, num_envs);
  RequireRows(rewards, num_envs, 1, "rewards");
  RequireRows(terminated, num_envs, 1, "terminated");
  RequireRows(truncated, num_envs, 1, "truncated");
  RequireRows(has_coverage, num_envs, 1, "has_coverage");
  const PushtOutcomes outcomes = {.rewards = rewards.data(),
                                  .terminated = terminated.data(),
                                  .truncated = truncated.data(),
                                  .has_coverage = has_coverage.data()};
  const PushtRows pointers = rows.pointers();
  const PushtRows final_pointers = final_rows.pointers();
  const nb::gil_scoped_release released;
  batch.Step(actions.data(), pointers, final_pointers, outcomes);
}

void BindSingle(nb::module_& m) {
  nb::class_<PushtSingle>(m, "PushtSingle", "One PushT simulation.")
      .def(nb::init<>())
      .def("reset", &PushtSingle::Reset, "start"_a,
           "Places agent x, y, block x, y and angle as gym-pusht does; returns n_contacts.")
      .def("step", &PushtSingle::Step, "x"_a, "y"_a,
           "One control period towards (x, y) [px]; returns reward, is_success, coverage and "
           "n_contacts.")
      .def("write_keypoints", &PushtSingle::WriteKeypoints, "Updates the keypoints in `numbers`.")
      .def("draw_pixels", &PushtSingle::DrawPixels, nb::arg("pixels").noconvert(),
           "Draws the observation into uint8 [96, 96, 3].")
      .def(
          "render",
          [](const PushtSingle& single, const Image& image) {
            RenderInto(image, [&](RgbImage* frame) { single.Render(frame); });
          },
          nb::arg("image").noconvert(), "Draws a frame into uint8 [height, width, 3].")
      .def_prop_ro(
          "numbers",
          [](PushtSingle& single) {
            return nb::ndarray<nb::numpy, const double, nb::ndim<1>>(
                single.numbers().data(), {PushtSingle::kSize}, nb::find(single));
          },
          "A view, float64 [26]: state [5], velocity of the agent [2], pose of the block [3], "
          "keypoints [16].");
}

void BindBatch(nb::module_& m) {
  nb::enum_<Seeding>(m, "Seeding")
      .value("GYM_PUSHT", Seeding::kGymPusht)
      .value("DIFFUSION_POLICY", Seeding::kDiffusionPolicy);
  nb::enum_<Autoreset>(m, "Autoreset")
      .value("NEXT_STEP", Autoreset::kNextStep)
      .value("SAME_STEP", Autoreset::kSameStep)
      .value("DISABLED", Autoreset::kDisabled);
  nb::class_<Rows>(m, "Rows", "Arrays that a PushtBatch writes, one row per env.")
      .def(nb::init<Matrix<double>, Matrix<double>, Matrix<double>, PixelsBatch, Matrix<double>,
                    Vector<std::int64_t>, Vector<bool>>(),
           nb::arg("state").none().noconvert(), nb::arg("environment_state").none().noconvert(),
           nb::arg("agent_pos").none().noconvert(), nb::arg("pixels").none().noconvert(),
           nb::arg("info").noconvert(), nb::arg("n_contacts").noconvert(),
           nb::arg("is_success").noconvert());
  nb::class_<PushtBatch>(m, "PushtBatch", "Many PushT simulations on a thread pool.")
      .def(nb::init<int, int, Seeding, Autoreset, int>(), "num_envs"_a, "n_threads"_a, "seeding"_a,
           "autoreset"_a, "max_episode_steps"_a)
      .def("reset", &ResetBatch, "rows"_a, nb::arg("mask").noconvert(),
           nb::arg("is_seeded").noconvert(), nb::arg("seeds").noconvert(),
           nb::arg("starts").none().noconvert(),
           "Resets the envs of the mask and writes the rows of all. Generators that get no seed "
           "continue; without starts these are drawn.")
      .def("step", &StepBatch, nb::arg("actions").noconvert(), "rows"_a, "final_rows"_a,
           nb::arg("rewards").noconvert(), nb::arg("terminated").noconvert(),
           nb::arg("truncated").noconvert(), nb::arg("has_coverage").noconvert(),
           "Steps all envs. final_rows gets the last rows of episodes that end in SAME_STEP.")
      .def(
          "render",
          [](const PushtBatch& batch, int env, const Image& image) {
            RenderInto(image, [&](RgbImage* frame) { batch.Render(env, frame); });
          },
          "env"_a, nb::arg("image").noconvert(),
          "Draws a frame of one env into uint8 [height, width, 3].");
}

}  // namespace
}  // namespace dp_bench::python

NB_MODULE(_core, m) {
  using namespace dp_bench::python;
  m.doc() = "The C++ simulations of dp_bench.";
  nb::register_exception_translator(&TranslateError);
  m.attr("SUCCESS_COVERAGE") = kSuccessCoverage;
  m.def("legacy_start", &LegacyStart, "seed"_a,
        "The start that diffusion_policy draws with this seed: agent x, y, block x, y, angle.");
  BindSingle(m);
  BindBatch(m);
}
