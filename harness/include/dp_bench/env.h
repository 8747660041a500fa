// The contract of an environment plugin. Does not include LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// What an env can do beyond the Env interface (env_abilities.h).
struct EnvAbilities {
  std::size_t state_size = 0;        // StateAccess: numbers in a state; 0 if not offered
  bool has_expert = false;           // Expert
  bool has_pointer_control = false;  // PointerControl
  std::vector<std::string> cameras;  // CameraAccess: their names; empty if not offered
  int n_marks = 0;                   // PictureMarks: how many; 0 if not offered

  bool operator==(const EnvAbilities&) const = default;
};

/// What an env offers; constant for its lifetime. A plugin can describe the env without creating it
/// (PluginTraits<Env>).
struct EnvSpec {
  ShapeMeta shape_meta;             // obs in alphabetical order
  std::vector<float> action_low;    // [Da], in the action's own units
  std::vector<float> action_high;   // [Da]
  double control_hz = 0.0;          // env steps per simulated second [Hz]
  int max_steps = 0;                // the EnvRunner truncates the episode here
  std::vector<MetricSpec> metrics;  // e.g. {"coverage", Aggregate::kMax}

  std::vector<std::string> tasks;      // values of the param `task`; empty: there is one task
  std::vector<std::string> obs_modes;  // values of the param `obs`; empty: it has no such param
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

/// An RGB8 picture, [height, width, 3], top row first.
struct RgbImage {
  RgbImage(int w, int h)
      : width(w),
        height(h),
        pixels(static_cast<std::size_t>(w) * static_cast<std::size_t>(h) * 3) {}
  int width;
  int height;
  std::vector<std::uint8_t> pixels;
};

class StateAccess;
class Expert;
class PointerControl;
class CameraAccess;
class PictureMarks;

/// One simulated task instance. Used by one thread at a time; instances share nothing. `Reset`,
/// `Step` and `Observe` do not allocate memory once warmed up.
class DPB_API Env {
 public:
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;
  virtual ~Env();

  virtual const EnvSpec& spec() const = 0;

  /// Starts an episode. All its randomness derives from `seed`: equal seeds and actions give
  /// bitwise-equal episodes, whatever this instance did before.
  virtual void Reset(std::uint64_t seed) = 0;

  /// Advances 1 / control_hz seconds. `action`: [Da], in the units documented by the plugin.
  /// Throws Error{kShape} on a wrong size, Error{kNumeric} on NaN or Inf, Error{kEnv} before Reset
  /// or after `terminated`.
  virtual StepResult Step(std::span<const float> action) = 0;

  /// Writes every key of the spec for the current state; changes nothing. Separate from `Step`
  /// because a policy observes only a few of the steps that it executes. Throws Error{kEnv} before
  /// Reset.
  virtual void Observe(const ObsWriter& obs) = 0;

  /// Draws the current state at the size of `frame`; changes nothing.
  virtual void Render(RgbImage* frame) = 0;

  /// Optional abilities (env_abilities.h); null unless the spec declares them. They belong to the
  /// env and are used by the same thread.
  virtual StateAccess* state_access() { return nullptr; }
  virtual Expert* expert() { return nullptr; }
  virtual PointerControl* pointer_control() { return nullptr; }
  virtual CameraAccess* camera_access() { return nullptr; }
  virtual PictureMarks* picture_marks() { return nullptr; }

 protected:
  Env() = default;
};

}  // namespace dp_bench
