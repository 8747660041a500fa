// The contract of an environment plugin. Does not include LibTorch.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/config.h"
#include "dp_bench/export.h"
#include "dp_bench/spec.h"

namespace dp_bench {

/// How the values of a metric over the steps of an episode become one number in the report.
enum class Aggregate { kMax, kMean, kLast };

/// A number that an env reports in each step, and how an episode's value follows from its steps.
struct MetricSpec {
  std::string name;
  Aggregate aggregate = Aggregate::kMax;

  bool operator==(const MetricSpec&) const = default;
};

/// A way to make episodes harder, for `eval --perturb`: the env reads its strength from the key
/// `name` of its param `perturb`. Strength 0 has no effect.
struct PerturbationSpec {
  std::string name;  // e.g. "light"
  double low = 0.0;  // range of the strength
  double high = 1.0;
  double strength = 1.0;   // used if the command line gives none
  bool is_visual = false;  // only images change

  bool operator==(const PerturbationSpec&) const = default;
};

/// Which optional functions of Env there are.
struct EnvAbilities {
  std::size_t state_size = 0;        // numbers in a state: GetState, SetState; 0 if not offered
  bool has_expert = false;           // BeginExpert, Act
  bool has_pointer_control = false;  // PointerAction
  std::vector<std::string> cameras;  // GetCamera, RenderCamera: names; empty if not offered
  int n_marks = 0;                   // Marks: how many; 0 if not offered

  bool operator==(const EnvAbilities&) const = default;
};

/// What an env offers; constant for its lifetime. A plugin can describe the env without creating it
/// (PluginTraits<Env>).
struct EnvSpec {
  ShapeMeta shape_meta;             // Env::spec() has obs in alphabetical order
  std::vector<float> action_low;    // [Da], in the action's own units
  std::vector<float> action_high;   // [Da]
  double control_hz = 0.0;          // env steps per simulated second [Hz]
  int max_steps = 0;                // the EnvRunner truncates the episode here
  std::vector<MetricSpec> metrics;  // e.g. {"coverage", Aggregate::kMax}
  // the world changes even when no action changes it, so the time that a policy thinks costs
  // something
  bool moves_without_actions = false;

  std::vector<std::string> tasks;      // values of the param `task`; empty: there is one task
  std::vector<std::string> obs_modes;  // values of the param `obs`; empty: it has no such param
  std::string instruction;             // what to do, in words, for policies that read it, or ""
  std::vector<PerturbationSpec> perturbations;
  EnvAbilities abilities;

  bool operator==(const EnvSpec&) const = default;
};

/// Outcome of one step. The score of an episode is its highest `reward` (as in upstream's
/// mean_score); the episode succeeded if any step reported `success`.
struct StepResult {
  double reward = 0.0;
  bool terminated = false;  // the task is over: solved, or no longer solvable
  bool success = false;
  std::span<const double> metrics;  // same order as EnvSpec::metrics; valid until the next call
};

/// Where an observation is written: one buffer of host memory per observation key.
class DPB_API ObsWriter {
 public:
  /// `keys`: EnvSpec's shape_meta.obs. `buffers`: one per key, in the same order, each exactly
  /// KeySpec::ByteSize() bytes. Both must outlive the writer. Throws Error{kShape} if the buffers
  /// do not fit the keys.
  ObsWriter(std::span<const KeySpec> keys, std::span<const std::span<std::byte>> buffers);

  /// The buffer of a key, in the layout of KeySpec::StorageShape(). T is float, std::uint8_t or
  /// std::uint16_t, according to the key's dtype. Throws Error{kShape} for another T and for a key
  /// that is not in the spec.
  template <class T>
  std::span<T> Buffer(std::string_view key) const {
    const std::span<std::byte> bytes = Find(key, DTypeOf<T>::value);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  /// All buffers as bytes, in the order of the spec.
  std::span<const std::span<std::byte>> buffers() const { return buffers_; }

 private:
  std::span<std::byte> Find(std::string_view key, DType dtype) const;

  std::span<const KeySpec> keys_;
  std::span<const std::span<std::byte>> buffers_;
};

/// An RGB8 image, [height, width, 3], top row first.
struct RgbImage {
  RgbImage(int w, int h)
      : width(w),
        height(h),
        pixels(static_cast<std::size_t>(w) * static_cast<std::size_t>(h) * 3) {}
  int width;
  int height;
  std::vector<std::uint8_t> pixels;
};

/// A pinhole camera without distortion. A point (X, Y, Z) in camera coordinates (x right, y down, z
/// forward [m]) appears at pixel (fx X / Z + cx, fy Y / Z + cy). The centre of the top left pixel
/// is (0.5, 0.5).
struct CameraParameters {
  std::string name;
  double fx = 0.0;  // [px]
  double fy = 0.0;
  double cx = 0.0;
  double cy = 0.0;
  std::array<double, 16> camera_to_world = {};  // row major, homogeneous [m]
};

namespace plugin {
class EnvGuard;
}

/// One simulated task instance. Used by one thread at a time; instances share nothing. `Reset`,
/// `Step` and `Observe` do not allocate memory once warmed up.
///
/// The public functions are called. They check every call and its result, then an env's own
/// function does the work: Step calls DoStep. An env implements those and may rely on the checks:
/// an episode runs, sizes are right, numbers are finite, the ability is declared. Wrong calls throw
/// Error{kShape} for a size, Error{kNumeric} for NaN and Inf, Error{kEnv} without a running
/// episode, Error{kUsage} for an ability that the spec does not declare.
class DPB_API Env {
 public:
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;
  virtual ~Env();

  /// The observations are in alphabetical order.
  const EnvSpec& spec() const { return spec_; }

  /// Starts an episode. All its randomness derives from `seed`: equal seeds and actions give
  /// bitwise-equal episodes, whatever this instance did before.
  void Reset(std::uint64_t seed);

  /// Advances 1 / control_hz seconds. `action`: [Da], in the units documented by the plugin. A
  /// refused action changes nothing. After `terminated` or an error of DoStep, Reset is due.
  StepResult Step(std::span<const float> action);

  /// Writes every key of the spec for the current state; changes nothing. Separate from `Step`
  /// because a policy observes only a few of the steps that it executes.
  void Observe(const ObsWriter& obs);

  /// Draws the current state at the size of `frame`; changes nothing.
  void Render(RgbImage* frame);

  // Optional, if spec().abilities declares it. Except for SetState, they change nothing in the env.

  /// The full simulation state as numbers, for replay and sampling-based experts, [state_size].
  /// SetState(GetState()) continues bit for bit like the original.
  void GetState(std::span<double> state) const;
  /// Also starts the episode clock. Throws Error{kEnv} for what is no state.
  void SetState(std::span<const double> state);

  /// Prepares the expert, a script or search that solves the task, to act from the current state.
  /// This may be in the middle of an episode, when it takes over from a policy
  /// (`collect.takeover`). All variation derives from `seed`: equal seeds and states give
  /// bitwise-equal actions.
  void BeginExpert(std::uint64_t seed);
  /// Writes the expert's action for the current state, [Da]; called once before each Step. Throws
  /// Error{kEnv} if it cannot continue; the episode then counts as failed.
  void Act(std::span<float> action);

  /// Writes the action, [Da], that follows a person's pointer. (x, y) is its position in the
  /// rendered frame, in [0, 1] from the top left.
  void PointerAction(double x, double y, std::span<float> action) const;

  /// A camera in the current state, for images of this size. `camera`: an index into the
  /// declared ones.
  CameraParameters GetCamera(int camera, int width, int height) const;
  /// Draws what one camera sees.
  void RenderCamera(int camera, RgbImage* frame);

  /// The positions of the robot's hands in the image that Render draws: (x, y) of each mark,
  /// [n_marks, 2], from the top left, in [0, 1] inside the image; NaN for a mark that the image
  /// cannot show. They are those of the state that `action`, [Da], would reach if it were executed
  /// completely, or without an action those of the current state. With them, videos and reports
  /// show the plan next to the executed path.
  void Marks(std::span<const float> action, int width, int height, std::span<float> xy) const;

 protected:
  explicit Env(EnvSpec spec);

  // What an env implements: always,
  virtual void DoReset(std::uint64_t seed) = 0;
  virtual StepResult DoStep(std::span<const float> action) = 0;
  virtual void DoObserve(const ObsWriter& obs) = 0;
  virtual void DoRender(RgbImage* frame) = 0;

  // and if its spec declares the ability. An expert without memory needs no DoBeginExpert.
  virtual void DoGetState(std::span<double> state) const;
  virtual void DoSetState(std::span<const double> state);
  virtual void DoBeginExpert(std::uint64_t seed);
  virtual void DoAct(std::span<float> action);
  virtual void DoPointerAction(double x, double y, std::span<float> action) const;
  virtual CameraParameters DoGetCamera(int camera, int width, int height) const;
  virtual void DoRenderCamera(int camera, RgbImage* frame);
  virtual void DoMarks(std::span<const float> action, int width, int height,
                       std::span<float> xy) const;

 private:
  friend class plugin::EnvGuard;
  friend struct std::default_delete<Env>;

  // Deletes `env`. Its destructor is watched like the other calls, so that one that hangs is named.
  static void Destroy(Env* env);

  EnvSpec spec_;
  std::unique_ptr<plugin::EnvGuard> guard_;
};

}  // namespace dp_bench

/// @cond
template <>
struct std::default_delete<dp_bench::Env> {
  default_delete() = default;
  template <std::derived_from<dp_bench::Env> Derived>
  default_delete(const default_delete<Derived>& /*of_derived*/) {}
  void operator()(dp_bench::Env* env) const { dp_bench::Env::Destroy(env); }
};
/// @endcond
