// The contract of an environment plugin. It includes no LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/config.h"
#include "dp_bench/export.h"
#include "dp_bench/spec.h"

namespace dp_bench {

/// How the steps of an episode become one number in the report.
enum class Aggregate { kMax, kMean, kLast };

struct MetricSpec {
  std::string name;
  Aggregate aggregate = Aggregate::kMax;
};

/// What an env offers; constant for its lifetime.
struct EnvSpec {
  ShapeMeta shape_meta;             // obs in alphabetical order
  std::vector<float> action_low;    // [Da], in the action's own units
  std::vector<float> action_high;   // [Da]
  double control_hz = 0.0;          // env steps per simulated second [Hz]
  int max_steps = 0;                // the EnvRunner truncates the episode here
  std::vector<MetricSpec> metrics;  // e.g. {"coverage", Aggregate::kMax}
};

/// Outcome of one step. The score of an episode is its highest `reward` (as upstream's mean_score);
/// the episode succeeded when any step reported `success`.
struct StepResult {
  double reward = 0.0;
  bool terminated = false;  // the task ended: solved, or beyond rescue
  bool success = false;
  std::span<const double> metrics;  // same order as EnvSpec::metrics; valid until the next call
};

/// Where an observation is written: one buffer per entry of `shape_meta.obs`, in that order, each
/// exactly KeySpec::ByteSize() bytes.
using ObsBuffers = std::span<const std::span<std::byte>>;

/// An RGB8 picture, rows from the top, [height, width, 3].
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
/// `Step` and `Observe` do not allocate once warm.
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

  /// Writes the observation of the current state; changes nothing. Separate from `Step` because a
  /// policy looks at few of the steps it executes. Throws Error{kEnv} before Reset.
  virtual void Observe(ObsBuffers obs) = 0;

  /// Draws the current state at the size of `frame`; changes nothing.
  virtual void Render(RgbImage* frame) = 0;

  /// Abilities that not every env has (env_abilities.h): null when it does not offer one. They
  /// belong to the env and are used by the thread that uses it.
  virtual StateAccess* state_access() { return nullptr; }
  virtual Expert* expert() { return nullptr; }
  virtual PointerControl* pointer_control() { return nullptr; }
  virtual CameraAccess* camera_access() { return nullptr; }
  virtual PictureMarks* picture_marks() { return nullptr; }

 protected:
  Env() = default;
};

}  // namespace dp_bench
